package preview

import (
	"slices"
	"strings"
	"testing"
)

const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"

func builtin(t testing.TB) *Finder {
	t.Helper()
	f, err := New(Builtin)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestBuiltin plays user agents as they are seen in logs.
func TestBuiltin(t *testing.T) {
	f := builtin(t)
	seen := map[string]bool{}
	for agent, want := range map[string]string{
		"http.rb/2.2.2 (Mastodon/1.5.0; +https://one.example/)":           "Mastodon",
		"http.rb/5.1.1 (Mastodon/4.2.10; +https://one.example/) Bot":      "Mastodon",
		"Mastodon/4.3.0 (http.rb/5.2.0; +https://one.example/)":           "Mastodon",
		"Pleroma 2.5.0; https://one.example <admin@one.example>":          "Pleroma",
		"Akkoma 3.10.4; https://one.example":                              "Pleroma",
		"Misskey/13.14.2 (https://one.example)":                           "Misskey",
		"SummalyBot/5.0.3":                                                "Misskey",
		"Calckey/14.0.0-dev42 (https://one.example)":                      "Misskey",
		"Lemmy/0.19.3; +https://one.example":                              "Lemmy",
		"pict-rs v0.3.0-main":                                             "Lemmy",
		"Friendica 'Giant Rhubarb' 2023.05-1518; https://one.example":     "Friendica",
		"PeerTube/6.0.0 (+https://one.example)":                           "PeerTube",
		"(Pixelfed/0.11.4; +https://one.example)":                         "Pixelfed",
		"gotosocial/0.13.0 (+https://one.example)":                        "GoToSocial",
		"Mozilla/5.0 (compatible; Bluesky Cardyb/1.1; +mailto:x@example)": "Bluesky",
		"Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)":      "Slack",
		"Mozilla/5.0 (compatible; Discordbot/2.0; +https://example)":      "Discord",
		"TelegramBot (like TwitterBot)":                                   "Telegram",
		"WhatsApp/2.23.20.0 A":                                            "WhatsApp",
		"Mattermost-Bot/1.1":                                              "Mattermost",
		"Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5": "Teams",
		"Synapse (bot; +https://example)":                                 "Matrix",
		"Mozilla/5.0 (compatible; ZulipURLPreview/9.0; +https://example)": "Zulip",
		"Viber/13.3.0.5 CFNetwork":                                        "Viber",
		"facebookexternalhit/1.1 (+http://www.facebook.com/x.php)":        "Facebook",
		"facebookexternalhit/1.1 Facebot Twitterbot/1.0":                  "Facebook", // the first of several
		"Twitterbot/1.0": "Twitter",
		"LinkedInBot/1.0 (compatible; Mozilla/5.0)":   "LinkedIn",
		"Mozilla/5.0 (compatible; redditbot/1.0; +x)": "Reddit",
		"Mozilla/5.0 (compatible; Pinterestbot/1.0)":  "Pinterest",
		"Tumblr/14.0.835.186":                         "Tumblr",
		"Mozilla/5.0 (compatible; vkShare; +x)":       "VK",
		"Iframely/1.3.1 (+https://example)":           "Iframely",
		"Mozilla/5.0 (compatible; Embedly/0.2; +x)":   "Embedly",
		chrome: "",
		"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) F/1": "",
		"":               "",
		"M":              "",
		"mastodon/4.3.0": "", // case counts
		"Slackbot 1.0 (+https://api.slack.com/robots)": "",
		"Feedly/1.0 (poller; 50 subscribers;)":         "",
	} {
		if got := f.Family(agent); got != want {
			t.Errorf("%q: %q, want %q", agent, got, want)
		}
		seen[want] = true
	}
	for name := range Builtin {
		if !seen[name] {
			t.Errorf("no agent of %s was tried", name)
		}
	}
}

// TestFinder compares the search with trying every pattern.
func TestFinder(t *testing.T) {
	families := map[string][]string{
		"inner": {"*abcd*"}, "start": {"abce*"}, "end": {"*bcde"}, "whole": {"xyzwv"}, "middle": {"a*ccccc*e"},
	}
	f, err := New(families)
	if err != nil {
		t.Fatal(err)
	}
	const letters = "abcdexyzwv"
	text := make([]byte, 9)
	for n := range 200_000 {
		for i := range text {
			text[i] = letters[(n*7919+i*i*104729+n/(i+1))%len(letters)]
		}
		length := n % (len(text) + 1)
		agent := string(text[:length])
		found := ""
		for _, p := range slices.Concat(append(f.heads[:], f.patterns)...) {
			if p.whole.Match([]byte(agent)) {
				found = p.family
			}
		}
		if got := f.Family(agent); (got == "") != (found == "") {
			t.Fatalf("%q: %q, want %q", agent, got, found)
		}
	}
	for agent, want := range map[string]string{"abcd": "inner", "xabcd": "inner", "abce": "start", "xabce": "", "xbcde": "end", "xyzwv": "whole", "xyzwvx": "", "a ccccc e": "middle"} {
		if got := f.Family(agent); got != want {
			t.Errorf("%q: %q, want %q", agent, got, want)
		}
	}
}

func TestNew(t *testing.T) {
	for pattern, want := range map[string]string{
		"*":                      `own: "*" must have 4 characters in a row that are no star`,
		"a*b":                    `must have 4 characters in a row that are no star`,
		"":                       `must have 4 characters`,
		strings.Repeat("x*", 60): "stars",
	} {
		if _, err := New(map[string][]string{"own": {pattern}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	if f, err := New(nil); err != nil || f.Family("Mastodon/4.3") != "" {
		t.Errorf("no families: %v", err)
	}
}

// TestOthersCostNothing: who is of no family costs no allocation.
func TestOthersCostNothing(t *testing.T) {
	f := builtin(t)
	if n := testing.AllocsPerRun(100, func() { f.Family(chrome) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFamily(b *testing.B) {
	f := builtin(b)
	for name, agent := range map[string]string{"browser": chrome, "preview": "http.rb/5.1.1 (Mastodon/4.2.10; +https://one.example/)"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.Family(agent)
			}
		})
	}
}

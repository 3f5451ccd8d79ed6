// Package preview knows the programs that fetch a page to show a preview of a link to it: when a
// link is posted, the servers and applications of all who see it ask for the same page within
// seconds, each from an address of its own.
package preview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Builtin are the families of such programs that are known, by patterns of their user agents. They
// are what the programs' sources, their makers' pages and logs show.
//
// Servers of the fediverse ask with the same names for other things as well, with a Signature that
// says for whom.
var Builtin = map[string][]string{
	// Servers of the fediverse, and the services that fetch for them.
	"Mastodon":   {"*Mastodon/*"},
	"Pleroma":    {"Pleroma *", "Akkoma *"},
	"Misskey":    {"*Misskey/*", "SummalyBot/*", "Summalybot/*", "*Sharkey/*", "*Firefish/*", "*Calckey/*", "*Iceshrimp/*"},
	"Lemmy":      {"Lemmy/*", "pict-rs*"},
	"Friendica":  {"*Friendica *"},
	"PeerTube":   {"*PeerTube/*"},
	"Pixelfed":   {"*Pixelfed/*"},
	"GoToSocial": {"*gotosocial/*", "*GoToSocial/*"},
	"Bluesky":    {"*Bluesky Cardyb/*"},
	// Chats.
	"Slack":      {"Slackbot-LinkExpanding *", "Slack-ImgProxy *"},
	"Discord":    {"*Discordbot/*"},
	"Telegram":   {"TelegramBot *"},
	"WhatsApp":   {"WhatsApp/*"},
	"Mattermost": {"Mattermost-Bot/*"},
	"Teams":      {"*SkypeUriPreview*", "MicrosoftPreview/*"},
	"Matrix":     {"Synapse (bot; *", "*Matrix-URL-Previewer-Bot*"},
	"Zulip":      {"*ZulipURLPreview/*"},
	"Viber":      {"Viber/*"},
	// Networks.
	"Facebook":  {"*facebookexternalhit/*"},
	"Twitter":   {"Twitterbot/*"},
	"LinkedIn":  {"LinkedInBot/*"},
	"Reddit":    {"*redditbot/*"},
	"Pinterest": {"*Pinterestbot/*"},
	"Tumblr":    {"Tumblr/*"},
	"VK":        {"*vkShare;*"},
	// Services that fetch for others.
	"Iframely": {"*Iframely/*"},
	"Embedly":  {"*Embedly/*"},
}

// New returns a finder of families by the patterns of their user agents. In a pattern only the star
// is special, and stands for anything; case counts.
func New(families map[string][]string) (*Finder, error) {
	f := new(Finder)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		for _, text := range families[name] {
			whole, err := blocklist.ParsePattern(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %q %w", name, text, err)
			}
			literal := longest(text)
			if len(literal) < shortest {
				return nil, fmt.Errorf("%s: %q must have %d characters in a row that are no star", name, text, shortest)
			}
			if head, _, _ := strings.Cut(text, "*"); head != "" {
				f.heads[head[0]] = append(f.heads[head[0]], pattern{name, head, whole})
			} else {
				f.patterns = append(f.patterns, pattern{name, literal, whole})
			}
		}
	}
	f.build()
	return f, nil
}

// longest returns the longest piece of a pattern between stars, of several the first.
func longest(text string) (piece string) {
	for each := range strings.SplitSeq(text, "*") {
		if len(each) > len(piece) {
			piece = each
		}
	}
	return piece
}

package config

import (
	"strings"
	"unicode/utf8"
)

// lintAgents warns, once each, about names that stand in the agents of ordinary clients,
// and about those that say little: lists of agents that are passed around hold such names.
func lintAgents(r report, names []string) {
	var common, short bool
	for _, name := range names {
		switch said := commonAgents[strings.ToLower(name)]; {
		case said != "" && !common:
			r.in("%q", name).warn(said)
			common = true
		case said == "" && utf8.RuneCountInString(name) < 3 && !short:
			r.in("%q", name).warn("is so short that it stands in many user agents")
			short = true
		}
	}
}

const (
	ofBrowsers = "stands in the user agents of browsers"
	ofReaders  = "is a common word: it also stands in the user agents of feed readers, link previews and tools"
)

// commonAgents says what is wrong with a name, in lower case.
var commonAgents = func() map[string]string {
	said := make(map[string]string)
	for note, names := range map[string]string{
		ofBrowsers: "mozilla compatible windows linux macintosh x11 mac android iphone ipad mobile version applewebkit webkit khtml " +
			"gecko chrome chromium safari firefox edge edg opera opr msie trident wow64 win64 x64 x86_64",
		ofReaders: "agent api app apps bot bots browser client code com crawl crawler cursor download fetch fetcher feed feeds get " +
			"github gitlab go google http https java library linkpreview monitor net node operator org php preview proxy python reader " +
			"request requests robot robots rss ruby scan scanner scrapy scraper search server site spider spiders test tool user web www",
	} {
		for _, name := range strings.Fields(names) {
			said[name] = note
		}
	}
	return said
}()

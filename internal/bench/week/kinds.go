package week

import "time"

// Kinds are all who read the feed. To see what becomes of another crowd, change this table: the
// columns are told at [Kind].
//
// What readers do is taken from where it says. How often they ask is their default where there
// is one, and else a guess, as are the numbers of clients; those of hosted readers are what a
// blog of that size sees in its log.
var Kinds = []Kind{
	// Readers of one's own.
	{
		Name: "NetNewsWire", Source: "https://github.com/Ranchero-Software/NetNewsWire",
		Agent: "NetNewsWire (RSS Reader; https://netnewswire.com/)", Clients: 1350, Each: 1,
		Every: every(time.Hour), Awake: day, Shows: Both, Whole: 8 * 24 * time.Hour,
		Heeds: 5 * time.Hour, Refused: heeds(week, 10*time.Minute),
	},
	{
		Name: "Miniflux", Source: "https://github.com/miniflux/v2/issues/879",
		Agent: "Mozilla/5.0 (compatible; Miniflux/2.2.14; +https://miniflux.app)", Clients: 350, Each: 1,
		Every: every(time.Hour), Shows: Both,
		Heeds: 24 * time.Hour, TTL: true, Refused: thrice(heeds(24*time.Hour, time.Hour)),
	},
	{
		Name: "FreshRSS", Source: "https://github.com/FreshRSS/FreshRSS/issues/7571",
		Agent: "FreshRSS/1.27.1 (Linux; https://freshrss.org)", Clients: 420, Each: 1,
		Every: from(20*time.Minute, time.Hour), Shows: Both,
		Heeds: 24 * time.Hour, Refused: heeds(week, 20*time.Minute),
	},
	{
		Name: "FreshRSS before 2025", Source: "https://github.com/FreshRSS/FreshRSS/issues/7571",
		Agent: "FreshRSS/1.24.3 (Linux; https://freshrss.org)", Clients: 150, Each: 1,
		Every: from(20*time.Minute, time.Hour), Shows: Both,
	},
	{
		Name: "FreshRSS, stale pair (T10)", Source: "https://github.com/FreshRSS/FreshRSS/issues/6712",
		Agent: "FreshRSS/1.24.0 (Linux; https://freshrss.org)", Clients: 12, Each: 1,
		Every: every(time.Hour), Shows: Stale,
	},
	{
		Name: "tt-rss", Source: "https://github.com/tt-rss/tt-rss",
		Agent: "Tiny Tiny RSS/24.04 (https://tt-rss.org/)", Clients: 250, Each: 1,
		Every: every(30 * time.Minute), Shows: Date, Whole: 12 * time.Hour, Refused: between(time.Hour, 2*time.Hour),
	},
	{
		Name: "CommaFeed", Source: "https://github.com/Athou/commafeed/releases/tag/5.6.0",
		Agent: "CommaFeed/5.11 (https://github.com/Athou/commafeed)", Clients: 60, Each: 1,
		Every: from(time.Hour, 4*time.Hour), Shows: Both, Refused: heeds(4*time.Hour, 5*time.Minute),
	},
	{
		Name: "Liferea", Source: "https://github.com/lwindolf/liferea (net.c)",
		Agent: "Liferea/1.15.8 (Linux; https://lzone.de/liferea/)", Clients: 230, Each: 1,
		Every: every(time.Hour), Awake: evening, Shows: Both, Refused: between(5*time.Minute, 5*time.Minute),
	},
	{
		Name: "Newsboat", Source: "https://github.com/newsboat/newsboat/issues/3193",
		Agent: "Newsboat/2.38 (Linux x86_64)", Clients: 300, Each: 1,
		Every: every(time.Hour), Awake: day, Shows: Both,
	},
	{
		Name: "Newsboat, four at once (T06)", Source: "https://github.com/newsboat/newsboat/issues/2732",
		Agent: "newsboat/2.21.0 (Linux x86_64)", Clients: 50, Each: 1,
		Every: every(time.Hour), Awake: day, Shows: Both, Shots: fourAtOnce,
	},
	{
		Name: "Thunderbird", Source: "https://adrianiainlam.tk/blog/2018/10/17/thunderbird-429",
		Agent: "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Thunderbird/128.5.0", Clients: 420, Each: 1,
		Every: every(100 * time.Minute), Awake: office, Shows: Date, Refused: forever,
	},
	{
		Name: "AntennaPod", Source: "https://github.com/AntennaPod/AntennaPod",
		Agent: "AntennaPod/3.7.1", Clients: 300, Each: 1,
		Every: from(4*time.Hour, 12*time.Hour), Shows: Date,
	},
	{
		Name: "Capy Reader", Source: "https://github.com/jocmp/capyreader/pull/2201",
		Agent: "CapyReader/1.1", Clients: 170, Each: 1,
		Every: from(time.Hour, 2*time.Hour), Awake: day, Shows: Both, Whole: 8 * 24 * time.Hour,
	},
	{
		Name: "wget with a date (T21)", Source: "https://www.gnu.org/software/wget/ (--timestamping)",
		Agent: "Wget/1.21.3", Clients: 40, Each: 1,
		Every: every(time.Hour), Shows: Date, Plain: true,
	},
	{
		Name: "script, once a day", Source: "https://rachelbythebay.com/w/feed/",
		Agent: "curl/8.5.0", Clients: 90, Each: 1,
		Every: every(24 * time.Hour), Plain: true,
	},

	// The same, but careless.
	{
		Name: "script, hourly", Source: "http://rachelbythebay.com/w/2023/01/18/http/",
		Agent: "python-requests/2.32.3", Clients: 170, Each: 1,
		Every: from(50*time.Minute, 70*time.Minute),
	},
	{
		Name: "script, each few minutes", Source: "http://rachelbythebay.com/w/2023/01/18/http/",
		Agent: "Go-http-client/1.1", Clients: 40, Each: 1,
		Every: from(5*time.Minute, 15*time.Minute),
	},
	{
		Name: "script, once a minute (T24)", Source: "http://rachelbythebay.com/w/2023/01/18/http/",
		Agent: "curl/7.88.1", Clients: 8, Each: 1,
		Every: every(time.Minute), Plain: true,
	},
	{
		Name: "browser add-on (T03)", Source: "https://rachelbythebay.com/fs/help.html",
		Agent: "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", Clients: 70, Each: 1,
		Every: from(10*time.Minute, 30*time.Minute), Awake: day,
	},
	{
		Name: "a date of its own", Source: "https://rachelbythebay.com/fs/help.html",
		Agent: "SimplePie/1.8 (Feed Parser; http://simplepie.org)", Clients: 60, Each: 1,
		Every: from(30*time.Minute, 70*time.Minute), Shows: OwnDate,
	},
	{
		Name: "If-None-Match: *", Source: "https://rachelbythebay.com/fs/help.html",
		Agent: "Feedfetch/0.3", Clients: 10, Each: 1,
		Every: every(30 * time.Minute), Shows: Star,
	},
	{
		Name: "a tag without quotes", Source: "https://rachelbythebay.com/fs/help.html",
		Agent: "rss-parser", Clients: 20, Each: 1,
		Every: every(30 * time.Minute), Shows: Unquoted,
	},

	// Services that read for many.
	{
		Name: "Feedly", Source: "http://www.feedly.com/fetcher.html",
		Agent: "Feedly/1.0 (+http://www.feedly.com/fetcher.html; %d subscribers; like FeedFetcher-Google)", Clients: 1, Each: 3150, Addresses: 3,
		Every: every(30 * time.Minute), Shows: Both,
	},
	{
		Name: "Inoreader", Source: "http://www.inoreader.com/feed-fetcher",
		Agent: "Mozilla/5.0 (compatible; inoreader.com; %d subscribers)", Clients: 1, Each: 900, Addresses: 2,
		Every: every(time.Hour), Shows: Both,
	},
	{
		Name: "NewsBlur", Source: "https://github.com/samuelclay/NewsBlur",
		Agent: `NewsBlur Feed Fetcher - %d subscribers - http://www.newsblur.com/ ("Mozilla/5.0")`, Clients: 1, Each: 500,
		Every: every(30 * time.Minute), Shows: Both,
	},
	{
		Name: "Feedbin", Source: "https://github.com/feedbin/feedbin",
		Agent: "Feedbin feed-id:1296379 - %d subscribers", Clients: 1, Each: 450,
		Every: every(time.Hour), Shows: Both, Refused: heeds(8*time.Hour, time.Hour),
	},
	{
		Name: "The Old Reader", Source: "https://theoldreader.com",
		Agent: "Mozilla/5.0 (compatible; theoldreader.com; %d subscribers; feed-id=5f0c)", Clients: 1, Each: 300,
		Every: every(time.Hour), Shows: Both,
	},
	{
		Name: "Unread Cloud", Source: "https://goldenhillsoftware.com/2024/08/feed-polling-for-unread-cloud",
		Agent: "Unread Cloud; %d subscribers", Clients: 1, Each: 130,
		Every: from(30*time.Minute, time.Hour), Shows: Both, Refused: between(4*time.Hour, 4*time.Hour),
	},

	// Those who read for nobody.
	{
		Name: "Googlebot (T18)", Source: "a podcast's log, see docs/feeds.md",
		Agent: "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", Clients: 1,
		Every: every(time.Minute),
	},
	{
		Name: "Amazon Music Podcast (T16)", Source: "a podcast's log, see docs/feeds.md",
		Agent: "Amazon Music Podcast", Clients: 2,
		Every: every(5 * time.Minute), Refused: heeds(week, 5*time.Minute),
	},
	{
		Name: "Spotify (T19)", Source: "a podcast's log, see docs/feeds.md",
		Agent: "Spotify/1.0", Clients: 1,
		Every: every(10 * time.Minute),
	},
	{
		Name: "Podbean (T19)", Source: "a podcast's log, see docs/feeds.md",
		Agent: "Podbean/FeedUpdate 2.1", Clients: 1,
		Every: every(18 * time.Minute), Shows: Tag,
	},
	{
		Name: "iTMS, HEAD first", Source: "https://github.com/opawg/podcast-rss-useragents",
		Agent: "iTMS", Clients: 1,
		Every: every(time.Hour), Shows: Both, Shots: headFirst,
	},
	{
		Name: "crawlers for models", Source: "https://platform.openai.com/docs/bots and alike",
		Agent: "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)", Clients: 12,
		Every: from(20*time.Minute, 2*time.Hour),
	},
	{
		Name: "a script by many names (T33)", Source: "https://github.com/Tiendil/feeds.fun/issues/408",
		Agent: "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 50 subscribers; like FeedFetcher-Google)", Clients: 3,
		Every: every(2 * time.Minute),
	},
}

// Hours in which devices are on.
var (
	day     = [2]int{7, 23}
	office  = [2]int{8, 18}
	evening = [2]int{16, 23}
)

const week = 7 * 24 * time.Hour

func every(d time.Duration) [2]time.Duration { return [2]time.Duration{d, d} }

func from(least, most time.Duration) [2]time.Duration { return [2]time.Duration{least, most} }

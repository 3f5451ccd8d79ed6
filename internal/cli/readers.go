package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// readers shows how the readers of feeds behave.
func readers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "readers",
		Short: "Show who reads the feeds, and how politely",
		Long: `Shows, for each zone with the option feed, who cost most: how often a reader
comes, how many of its requests want the whole feed again (WHOLE), how many were
refused, and how many came before the Retry-After that it had been told
(EARLY). PENALTY is how many times as rare its whole feeds are, where the zone
says escalate. SCORE is from 0 to 100, which is polite; VERDICT begins with what
is worst. Below, the same by agents of one name.

READER is a hash, the same that the log of refusals has as key_hash, beside the
address. What is shown is what this server has seen since it was started, for at
most 100,000 pairs of reader and feed in a zone.` + feedExitCodes,
		Example: `  caddy weir feed readers
  caddy weir feed readers --sort early --top 5
  caddy weir feed readers --feed example.com/feed.xml --json
  caddy weir feed readers --client-ip 203.0.113.7`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.String("feed", "", "only this feed: a path, or an `address`")
	f.String("zone", "", "only this zone, by `name`")
	f.String("client-ip", "", "only the reader with this `address`")
	f.String("sort", admin.ReaderOrders[0], "the `order`, the worst first: "+strings.Join(admin.ReaderOrders, ", "))
	f.Int("top", 20, "the most readers, and agents, to show of a zone: a `number`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := client(cmd)
		if err != nil {
			return exit(cmd, trouble, err)
		}
		return inTime(cmd, func(ctx context.Context) error {
			top, _ := cmd.Flags().GetInt("top")
			told, err := c.Readers(ctx, admin.AskReaders{
				Zone: text(cmd, "zone"), Feed: text(cmd, "feed"), Client: text(cmd, "client-ip"),
				Sort: text(cmd, "sort"), Top: top,
			})
			if err != nil {
				return err
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return writeJSON(cmd, told)
			}
			return writeReaders(cmd.OutOrStdout(), &told)
		})
	}
	return cmd
}

// writeReaders shows how the readers of feeds behave.
func writeReaders(w io.Writer, told *admin.Readers) error {
	if len(told.Zones) == 0 {
		_, err := fmt.Fprintln(w, "No zone is for feeds.")
		return err
	}
	for i := range told.Zones {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := writeReaderZone(w, &told.Zones[i], told.At); err != nil {
			return err
		}
	}
	return nil
}

func writeReaderZone(w io.Writer, z *admin.ReaderZone, now time.Time) error {
	fmt.Fprintf(w, "zone %s: ", shown(z.Zone))
	if z.ReadersTotal == 0 {
		_, err := fmt.Fprintln(w, "no readers yet")
		return err
	}
	fmt.Fprintf(w, "%s of %s, %s, %s, %s refused, for %s; this server alone\n\n",
		several(int64(z.ReadersTotal), "reader"), several(int64(z.Feeds), "feed"), several(z.Total.Requests, "request"),
		size(z.Total.Bytes), number(z.Total.Refused), since(z.Total.Since, now))
	t := newTable(w)
	t.row("READER", "AGENT", "FEED", "REQUESTS", "BYTES", "EVERY", "WHOLE", "304", "REFUSED", "EARLY", "SEEN", "FOR", "PENALTY", "SCORE", "VERDICT")
	for i := range z.Readers {
		readerRow(t, &z.Readers[i], now)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if len(z.Readers) < z.ReadersTotal {
		fmt.Fprintf(w, "\n%s of %s shown.\n", number(int64(len(z.Readers))), several(int64(z.ReadersTotal), "reader"))
	}
	fmt.Fprintln(w)
	t = newTable(w)
	t.row("AGENTS", "READERS", "REQUESTS", "OF ALL", "BYTES", "OF ALL", "WHOLE", "304", "REFUSED", "EARLY")
	for i := range z.Families {
		f := &z.Families[i]
		t.row(f.Family, number(int64(f.Readers)), number(f.Requests), percent(f.Requests, z.Total.Requests),
			size(f.Bytes), percent(f.Bytes, z.Total.Bytes), percent(f.Unconditional, f.Requests),
			percent(f.NotModified, f.Requests), number(f.Refused), number(f.Early))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if len(z.Families) < z.FamiliesTotal {
		fmt.Fprintf(w, "\n%s of %s shown.\n", number(int64(len(z.Families))), several(int64(z.FamiliesTotal), "agent"))
	}
	return nil
}

// agentWidth is how much of an agent a line shows.
const agentWidth = 32

func readerRow(t table, r *admin.FeedReader, now time.Time) {
	agent, every := r.Agent, ""
	if runes := []rune(agent); len(runes) > agentWidth {
		agent = string(runes[:agentWidth-1]) + "…"
	}
	if r.Interval > 0 {
		every = short(time.Duration(r.Interval * float64(time.Second)))
	}
	penalty := ""
	if r.Slower > 1 {
		penalty = fmt.Sprintf("×%d", r.Slower)
	}
	t.row(r.Key, agent, r.Feed, number(r.Requests), size(r.Bytes), every, percent(r.Unconditional, r.Requests),
		percent(r.NotModified, r.Requests), number(r.Refused), number(r.Early), since(&r.Last, now)+" ago", since(&r.Since, now),
		penalty, fmt.Sprint(r.Score), strings.Join(r.Verdict, ", "))
}

// since writes how long ago something was.
func since(at *time.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	return short(now.Sub(*at))
}

// percent writes a share.
func percent(of, all int64) string {
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*float64(of)/float64(all))
}

// size writes a number of bytes in three digits or so.
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value := float64(n)
	for _, unit := range []string{"kB", "MB", "GB"} {
		if value /= 1000; value < 999.5 {
			if value < 9.95 {
				return fmt.Sprintf("%.1f %s", value, unit)
			}
			return fmt.Sprintf("%.0f %s", value, unit)
		}
	}
	return fmt.Sprintf("%.0f TB", value/1000)
}

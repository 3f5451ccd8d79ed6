package e2e

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// A nameServer is a DNS server on loopback, by UDP, that knows the names of some addresses and the
// addresses of some names, and that nothing else exists.
type nameServer struct {
	at string // its address

	mu    sync.Mutex
	names map[string]string   // of addresses
	hosts map[string][]string // of names, without the dot at the end
	asked []string
}

// The types of records, and the codes of answers (RFC 1035, RFC 3596).
const (
	typeA      = 1
	typePTR    = 12
	typeAAAA   = 28
	codeOK     = 0
	codeNoName = 3
)

// newNameServer serves until the test ends.
func newNameServer(t *testing.T, names map[string]string, hosts map[string][]string) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{at: conn.LocalAddr().String(), names: names, hosts: hosts}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for query := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			if reply := s.answer(query[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from) // who asked asks again
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return s
}

// questions lists what was asked, as type and name.
func (s *nameServer) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// answer answers a query of one question.
func (s *nameServer) answer(query []byte) []byte {
	const header = 12
	if len(query) < header+5 || query[2]&0x80 != 0 {
		return nil
	}
	var labels []string
	at := header
	for at < len(query) && query[at] != 0 {
		end := at + 1 + int(query[at])
		if end >= len(query) {
			return nil
		}
		labels = append(labels, string(query[at+1:end]))
		at = end
	}
	if at+5 > len(query) {
		return nil
	}
	name, kind := strings.ToLower(strings.Join(labels, ".")), binary.BigEndian.Uint16(query[at+1:])
	records, known := s.find(name, kind)

	// The header with the question, then the records, which name it by a pointer.
	reply := append([]byte(nil), query[:at+5]...)
	reply[2], reply[3] = 0x84|query[2]&1, codeOK
	if !known {
		reply[3] = codeNoName
	}
	binary.BigEndian.PutUint16(reply[4:], 1)
	binary.BigEndian.PutUint16(reply[6:], uint16(len(records)))
	binary.BigEndian.PutUint32(reply[8:], 0)
	for _, data := range records {
		reply = append(reply, 0xc0, header)
		reply = binary.BigEndian.AppendUint16(reply, kind)
		reply = append(reply, 0, 1, 0, 0, 0, 60)
		reply = binary.BigEndian.AppendUint16(reply, uint16(len(data)))
		reply = append(reply, data...)
	}
	return reply
}

// find returns the data of the records of a name, and whether there is such a name.
func (s *nameServer) find(name string, kind uint16) (records [][]byte, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, name)
	for address, host := range s.names {
		if name == reverseName(netip.MustParseAddr(address)) {
			if kind == typePTR {
				records = append(records, wireName(host))
			}
			return records, true
		}
	}
	addresses, known := s.hosts[name]
	for _, text := range addresses {
		if a := netip.MustParseAddr(text); a.Is4() && kind == typeA || a.Is6() && kind == typeAAAA {
			records = append(records, a.AsSlice())
		}
	}
	return records, known
}

// reverseName is the name under which the DNS keeps the name of an address.
func reverseName(a netip.Addr) string {
	const hex = "0123456789abcdef"
	var labels []string
	bytes := a.AsSlice()
	for i := len(bytes) - 1; i >= 0; i-- {
		if a.Is4() {
			labels = append(labels, netip.AddrFrom4([4]byte{3: bytes[i]}).String()[len("0.0.0."):])
			continue
		}
		labels = append(labels, hex[bytes[i]&15:][:1], hex[bytes[i]>>4:][:1])
	}
	if a.Is4() {
		return strings.Join(labels, ".") + ".in-addr.arpa"
	}
	return strings.Join(labels, ".") + ".ip6.arpa"
}

// wireName is a name as messages have it.
func wireName(name string) (b []byte) {
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0)
}

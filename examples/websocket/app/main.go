// Command app stands for an application with WebSockets: it takes connections under /live,
// and keeps them open until their clients leave. What they say it does not read.
//
//	go run ./app
package main

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
)

func main() {
	http.HandleFunc("GET /live", live)
	http.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "WebSockets are under /live\n")
	})
	log.Print("an application with WebSockets on localhost:9000")
	log.Fatal(http.ListenAndServe("localhost:9000", nil))
}

// live switches to the WebSocket protocol and waits for the client to leave.
func live(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Sec-WebSocket-Key")
	if key == "" {
		http.Error(w, "only for WebSockets", http.StatusUpgradeRequired)
		return
	}
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	// The key is answered as RFC 6455, section 4.2.2, wants it.
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(buffer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	if err := buffer.Flush(); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, buffer)
}

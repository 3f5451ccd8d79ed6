package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS says how the servers prove who they are, and how the store does. The zero value
// trusts the authorities that the system trusts, and shows no certificate.
//
// The files are read anew for each connection, so that certificates may be renewed while
// the store is in use.
type TLS struct {
	// CA is a file with the certificates of the authorities to trust, in PEM form.
	CA string
	// Cert and Key are the files of the store's own certificate, in PEM form. Both are
	// given, or neither is.
	Cert, Key string
	// ServerName is the name that the servers' certificates must hold; default: the host
	// that is connected to.
	ServerName string
}

// Config reads the files for a connection to a host.
func (t *TLS) Config(host string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("tls: ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls: ca: no certificate in %s", t.CA)
		}
	}
	if t.Cert != "" || t.Key != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("tls: cert and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

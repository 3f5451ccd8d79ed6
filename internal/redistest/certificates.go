package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates is an authority of a test's own with a certificate for servers and one for
// clients, in files.
type Certificates struct {
	// CA is the file with the authority's certificate.
	CA string
	// Cert and Key are the files of the servers' certificate, which is good for
	// 127.0.0.1 and for [ServerName].
	Cert, Key string
	// ClientCert and ClientKey are the files of the clients' certificate.
	ClientCert, ClientKey string

	t      testing.TB
	key    *ecdsa.PrivateKey
	parent *x509.Certificate
}

// ServerName is a name that servers' certificates hold, beside their address.
const ServerName = "redis.test"

// NewCertificates makes an authority and its certificates, in files that the test's end
// removes.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	c := &Certificates{
		CA: in("ca.crt"), Cert: in("server.crt"), Key: in("server.key"),
		ClientCert: in("client.crt"), ClientKey: in("client.key"), t: t,
	}
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "an authority for tests"},
		IsCA:    true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	c.key, c.parent = c.issue(ca, c.CA, in("ca.key"))
	c.issue(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "server"},
		DNSNames: []string{ServerName}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		// Servers are each other's clients, as replicas are of their master.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, c.Cert, c.Key)
	c.Renew()
	return c
}

// Renew replaces the clients' certificate by a new one.
func (c *Certificates) Renew() {
	c.t.Helper()
	c.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "client"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, c.ClientCert, c.ClientKey)
}

// issue makes a key and a certificate, signed by the authority if there is one, and writes
// both.
func (c *Certificates) issue(cert *x509.Certificate, certFile, keyFile string) (*ecdsa.PrivateKey, *x509.Certificate) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c.must(err)
	cert.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	c.must(err)
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	cert.KeyUsage |= x509.KeyUsageDigitalSignature
	parent, signer := c.parent, c.key
	if parent == nil {
		parent, signer = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	c.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	c.must(err)
	c.write(certFile, "CERTIFICATE", der)
	c.write(keyFile, "PRIVATE KEY", private)
	made, err := x509.ParseCertificate(der)
	c.must(err)
	return key, made
}

// write replaces a file at one go, as whoever renews certificates should.
func (c *Certificates) write(file, kind string, der []byte) {
	c.t.Helper()
	c.must(os.WriteFile(file+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	c.must(os.Rename(file+".new", file))
}

// client is how the test itself connects.
func (c *Certificates) client() *tls.Config {
	c.t.Helper()
	pair, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
	c.must(err)
	roots := x509.NewCertPool()
	roots.AddCert(c.parent)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}
}

func (c *Certificates) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

package copies

import (
	"net/http"
	"strings"
)

// personal are the fields of a request by which its client proves who it is, or by which the
// request is not what its first line says: another method, another address, or a fragment of the
// page. Client-Cert is that of RFC 9440, Dpop of RFC 9449; what begins with Remote or names a user is set by
// proxies that know who asks.
var personal = map[string]bool{
	"Cookie": true, "Upgrade": true, "Client-Cert": true, "Client-Cert-Chain": true, "Dpop": true,
	"Remote-User": true, "Remote-Groups": true, "Remote-Email": true, "Remote-Name": true, "X-Remote-User": true,
	"X-Forwarded-User": true, "X-Forwarded-Email": true, "X-Forwarded-Groups": true, "X-Forwarded-Preferred-Username": true,
	"X-User": true, "X-User-Id": true, "X-Client-Cert": true, "X-Ssl-Client-Cert": true, "X-Forwarded-Client-Cert": true,
	"X-Vouch-User": true, "X-Ms-Client-Principal": true, "Tailscale-User-Login": true,
	"X-Wp-Nonce": true, "Cf-Access-Client-Id": true,
	"X-Http-Method": true, "X-Http-Method-Override": true, "X-Method-Override": true,
	"X-Original-Url": true, "X-Rewrite-Url": true, "X-Host": true, "X-Http-Host-Override": true,
	"X-Requested-With": true, "X-Pjax": true, "X-Inertia": true, "Hx-Request": true, "Turbo-Frame": true,
}

// secrets are parts of names of which every field is personal, as they stand in canonical ones, at the beginning of a
// word and within: Authorization and Proxy-Authorization, X-Auth-Token, Private-Token, X-Amz-Security-Token,
// Cf-Access-Jwt-Assertion, X-Webauth-User, X-Amzn-Oidc-Accesstoken, X-Goog-Api-Key, and what applications make up
// themselves, as X-Clientsecret. Signature is that of HTTP Message Signatures (RFC 9421) and of ActivityPub.
var secrets = [...]string{
	"Auth", "auth", "Token", "token", "Secret", "secret", "Session", "session", "Signature", "signature", "Jwt", "jwt",
	"Oidc", "oidc", "Api-Key", "api-Key", "Apikey", "apikey", "Password", "password",
}

// isPersonal reports whether a field of a request, by its canonical name, makes the request one for
// a single client. CGI and what came after it cannot tell an underscore in a name from a dash.
func isPersonal(name string) bool {
	if personal[name] || strings.Contains(name, "_") {
		return true
	}
	for _, part := range secrets {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// Anonymous reports whether a request may be answered with what others were given, and others with
// what it is given: a GET or HEAD without a body and without credentials.
func Anonymous(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.ContentLength != 0 {
		return false
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return false
	}
	for name, values := range r.Header {
		if len(values) > 0 && isPersonal(name) {
			return false
		}
	}
	return true
}

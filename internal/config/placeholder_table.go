package config

import (
	"slices"
	"strconv"
	"strings"
)

// A family is placeholders with a common beginning.
type family struct {
	prefix string
	// names says which ends there are; nil for any.
	names func(rest string) bool
	// list holds the ends if they can be listed.
	list []string
	// late says when the family is empty, if it is so while requests are decided.
	late string
}

// placeholderFamilies are the placeholders of Caddy 2.11 and ours. The first family
// whose prefix fits decides, so the longer prefixes stand first.
var placeholderFamilies = []family{
	free("http.request.header.", ""),
	free("http.request.cookie.", ""),
	free("http.request.uri.query.", ""),
	{prefix: "http.request.host.labels.", names: isIndex},
	{prefix: "http.request.remote.host/", names: func(rest string) bool {
		_, err := parseBits(rest)
		return err == nil
	}},
	{prefix: "http.request.tls.client.san.", names: isAlternativeName},
	{prefix: "http.request.tls.", names: isTLSField, list: tlsFields},
	named("http.request.uri.path.", isIndex, "", "file dir file.base file.ext"),
	named("http.request.orig_uri.path.", isIndex, "", "file file_escaped dir"),
	named("http.request.", nil, "", `method scheme proto proto_name
		host port hostport local local.host local.port remote remote.host remote.port
		uri uri_escaped uri.path uri.path_escaped uri.query uri.query_escaped uri.prefixed_query
		duration duration_ms uuid body body_base64
		orig_method orig_uri orig_uri.path orig_uri.query orig_uri.prefixed_query`),
	free("http.vars.", ""),
	free("http.auth.", ""),
	free("http.regexp.", ""),
	free("http.url_pattern.", ""),
	named("http.matchers.file.", nil, "", "relative absolute remainder type"),
	named("http.error.", nil, whileNoError, "status_code status_text message trace id"),
	{prefix: "http.error", names: isNothing, late: whileNoError},
	free("http.reverse_proxy.header.", beforeProxy),
	named("http.reverse_proxy.", nil, beforeProxy, `retries duration duration_ms status_code status_text
		is_transport_error active.target_upstream upstream.address upstream.hostport upstream.host
		upstream.port upstream.requests upstream.max_requests upstream.fails upstream.latency
		upstream.latency_ms upstream.duration upstream.duration_ms`),
	free("http.intercept.header.", beforeResponse),
	named("http.intercept.", nil, beforeResponse, "status_code"),
	free("http.response.header.", beforeResponse),
	named("http.response.", nil, beforeResponse, "status size duration duration_ms"),
	named("http.rate_limit.", nil, "", "exceeded.name exceeded.limit exceeded.window exceeded.wait exceeded.key_hash preview"),
	named("http.block.", nil, "", "rule"),
	{prefix: "http.shutting_down", names: isNothing},
	{prefix: "http.time_until_shutdown", names: isNothing},
	free("env.", ""),
	free("file.", ""),
	named("system.", nil, "", "hostname slash os wd arch"),
	named("time.", nil, "", "now now.http now.rfc3339 now.common_log now.year now.unix now.unix_ms"),
}

// When a placeholder is still empty.
const (
	whileNoError   = "outside handle_errors routes"
	beforeProxy    = "until a reverse_proxy or forward_auth has answered"
	beforeResponse = "until there is a response"
)

// free makes a family of which any end is known.
func free(prefix, late string) family {
	return family{prefix: prefix, names: isSomething, late: late}
}

// named makes a family whose ends are listed, or else pass the check.
func named(prefix string, others func(string) bool, late, ends string) family {
	list := strings.Fields(ends)
	return family{prefix: prefix, list: list, late: late, names: func(rest string) bool {
		return slices.Contains(list, rest) || others != nil && others(rest)
	}}
}

func isSomething(rest string) bool { return rest != "" }

func isNothing(rest string) bool { return rest == "" }

// isIndex reports whether an end is a place in a list: 0, 1, 2 …
func isIndex(rest string) bool {
	n, err := strconv.Atoi(rest)
	return err == nil && n >= 0
}

// isAlternativeName reports whether an end names the alternative names of a client's
// certificate, or one of them.
func isAlternativeName(rest string) bool {
	kind, place, one := strings.Cut(strings.ToLower(rest), ".")
	return slices.Contains([]string{"dns_names", "emails", "ips", "uris"}, kind) && (!one || isIndex(place))
}

// tlsFields end {http.request.tls.*}; Caddy ignores their case.
var tlsFields = strings.Fields(`version cipher_suite resumed proto proto_mutual server_name ech
	client.fingerprint client.public_key client.public_key_sha256 client.issuer client.serial
	client.subject client.certificate_pem client.certificate_der_base64`)

func isTLSField(rest string) bool {
	return slices.Contains(tlsFields, strings.ToLower(rest))
}

const (
	meantAddress = "{http.request.remote.host} or {http.vars.client_ip}"
	meantAgent   = "{http.request.header.User-Agent}"
	meantPath    = "{http.request.uri.path}"
)

// mistaken are names that are often written, with what is meant by them.
var mistaken = map[string]string{
	"http.request.remote_ip":      meantAddress,
	"http.request.remote_addr":    meantAddress,
	"http.request.remote_host":    meantAddress,
	"http.request.remote.ip":      meantAddress,
	"http.request.remote.addr":    meantAddress,
	"http.request.client_ip":      meantAddress,
	"http.request.client.ip":      meantAddress,
	"http.request.ip":             meantAddress,
	"http.request.real_ip":        meantAddress,
	"remote_ip":                   meantAddress,
	"remote_addr":                 meantAddress,
	"http.request.user_agent":     meantAgent,
	"http.request.useragent":      meantAgent,
	"http.request.path":           meantPath,
	"http.request.url":            "{http.request.uri}",
	"http.request.url.path":       meantPath,
	"http.request.query":          "{http.request.uri.query}",
	"http.request.header":         "{http.request.header.NAME}",
	"http.request.cookie":         "{http.request.cookie.NAME}",
	"http.request.user":           "{http.auth.user.id}",
	"http.rate_limit.name":        "{http.rate_limit.exceeded.name}",
	"http.rate_limit.retry_after": "{http.rate_limit.exceeded.wait}",
}

#!/usr/bin/env bash
# Starts what the Caddyfile beside this script expects, on this machine alone, to try it: a
# master with two replicas (ports 6390 to 6392) and three sentinels (26379 to 26381), all of
# them with TLS only, and an ACL user. Certificates and data go into the folder `servers`.
#
#   ./servers.sh start [password]      begins with new certificates and no data
#   ./servers.sh stop
set -euo pipefail
cd "$(dirname "$0")"
folder=$PWD/servers
data=(6390 6391 6392)
sentinels=(26379 26380 26381)

# certificate makes a key and a certificate that the authority vouches for.
certificate() {
	openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$1.crt" \
		-extfile <(echo "subjectAltName=DNS:redis.test,DNS:localhost,IP:127.0.0.1") 2>/dev/null
}

tls() {
	printf '%s\n' "port 0" "tls-port $1" "bind 127.0.0.1" "tls-cert-file $folder/server.crt" "tls-key-file $folder/server.key" \
		"tls-ca-cert-file $folder/ca.crt" "tls-replication yes" "daemonize yes" "dir $folder" \
		"logfile $folder/$1.log" "pidfile $folder/$1.pid"
}

start() {
	rm -rf "$folder"
	mkdir -m 700 "$folder"
	pushd "$folder" >/dev/null
	openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 30 -subj "/CN=example authority" 2>/dev/null
	certificate server
	certificate client
	popd >/dev/null
	for port in "${data[@]}"; do
		{
			tls "$port"
			echo 'save ""'
			echo "user weir on >$1 ~weir:* &weir:* +eval +evalsha +get +set +getrange +setrange +del +strlen +pexpire +time +select +ping +info +publish +subscribe +hget +hmget +hset +hdel +hexists +hlen +hscan +zadd +zrem +zrange +zrangebyscore +lpush +ltrim +lrange"
			[ "$port" = "${data[0]}" ] || echo "replicaof 127.0.0.1 ${data[0]}"
		} >"$folder/$port.conf"
		redis-server "$folder/$port.conf"
	done
	for port in "${sentinels[@]}"; do
		{
			tls "$port"
			echo "sentinel monitor mymaster 127.0.0.1 ${data[0]} 2"
			echo "sentinel down-after-milliseconds mymaster 2000"
		} >"$folder/$port.conf"
		redis-server "$folder/$port.conf" --sentinel
	done
	echo "started; now, in this folder:"
	echo "  REDIS_PASSWORD=$1 CERTS=$folder ../../bin/caddy run"
	echo "and to see a failover:"
	echo "  kill \$(cat servers/${data[0]}.pid)"
}

stop() {
	for port in "${sentinels[@]}" "${data[@]}"; do
		[ -f "$folder/$port.pid" ] || continue
		pid=$(cat "$folder/$port.pid")
		kill "$pid" 2>/dev/null || continue
		for _ in $(seq 50); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
	done
	rm -rf "$folder"
}

case "${1:-}" in
start) stop; start "${2:-a-password}" ;;
stop) stop ;;
*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]##*/}"; exit 2 ;;
esac

package redis

import (
	"crypto/tls"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

const (
	// keepAlive is how often an idle connection is tested. An idle node shall
	// cost next to nothing.
	keepAlive = 15 * time.Second
	// answerWithin is how long a server may leave a command unanswered before
	// its connection counts as broken.
	answerWithin = 10 * time.Second
)

// CheckURL says what is wrong with a store's URL, without connecting.
func CheckURL(store string) error {
	_, err := clientOption(store)
	return err
}

// clientOption reads a store's URL. The errors never show it: it may hold a password.
func clientOption(store string) (rueidis.ClientOption, error) {
	scheme, rest, ok := strings.Cut(store, "://")
	kind, secure := strings.CutPrefix(scheme, "rediss")
	if !secure {
		kind, ok = strings.CutPrefix(scheme, "redis")
	}
	if !ok {
		return rueidis.ClientOption{}, badURL("must begin with redis:// or rediss://")
	}
	o := baseOption()
	if secure {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	rest, err := takeUser(&o, rest)
	if err != nil {
		return o, err
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if o.InitAddress, err = addresses(hosts); err != nil {
		return o, err
	}
	return o, takeKind(&o, kind, path)
}

// baseOption is what every connection has. Nothing is retried by the client:
// only the engine knows what provably did not run.
func baseOption() rueidis.ClientOption {
	return rueidis.ClientOption{
		Dialer:              net.Dialer{Timeout: 5 * time.Second, KeepAlive: keepAlive},
		ConnWriteTimeout:    answerWithin,
		DisableRetry:        true,
		DisableCache:        true,
		AlwaysPipelining:    true, // a reader on every connection notices at once that it is gone
		PipelineMultiplex:   -1,   // one connection
		BlockingPoolCleanup: time.Minute,
		ClientName:          "millrace",
	}
}

func takeUser(o *rueidis.ClientOption, rest string) (string, error) {
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return rest, nil
	}
	user, password, _ := strings.Cut(rest[:at], ":")
	var err error
	if o.Username, err = url.PathUnescape(user); err != nil {
		return "", badURL("has a user that is not escaped")
	}
	if o.Password, err = url.PathUnescape(password); err != nil {
		return "", badURL("has a password that is not escaped")
	}
	return rest[at+1:], nil
}

func addresses(hosts string) ([]string, error) {
	var list []string
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
		}
		if name, port, err := net.SplitHostPort(host); err != nil || name == "" || port == "" {
			return nil, badURL("must name host:port")
		}
		list = append(list, host)
	}
	return list, nil
}

func takeKind(o *rueidis.ClientOption, kind, path string) error {
	switch kind {
	case "":
		if len(o.InitAddress) != 1 {
			return badURL("names several hosts: use redis-cluster:// or redis-sentinel://")
		}
		o.ForceSingleClient = true
		return takeDB(o, path)
	case "-sentinel":
		if path == "" || strings.Contains(path, "/") {
			return badURL("must end with the name of the master")
		}
		o.Sentinel.MasterSet = path
		o.Sentinel.Dialer, o.Sentinel.TLSConfig = o.Dialer, o.TLSConfig
		return nil
	case "-cluster":
		if path != "" {
			return badURL("of a Cluster has no database")
		}
		o.ClusterOption.MaxMovedRedirections = 8
		return nil
	}
	return badURL("must be of redis, redis-sentinel or redis-cluster")
}

func takeDB(o *rueidis.ClientOption, path string) error {
	if path == "" {
		return nil
	}
	db, err := strconv.Atoi(path)
	if err != nil || db < 0 {
		return badURL("must end with the number of the database")
	}
	o.SelectDB = db
	return nil
}

func badURL(fault string) error {
	return millrace.Errorf(millrace.CodeInvalid, "the Redis URL %s", fault)
}

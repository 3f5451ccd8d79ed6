package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// TestScripts runs the stories in testdata/script. Each has a folder, ports and processes
// of its own, and in its environment:
//
//	$PORT, $PORT2    free ports; $URL and $URL2 begin the addresses of servers there
//	$REDIS           where this story's Redis is or will be, as host:port
//	$EXAMPLES        the folder of the examples
//
// The condition [shipped] holds when a caddy as users build it is on trial.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   filepath.Join("testdata", "script"),
		Setup: newStory,
		Condition: func(word string) (bool, error) {
			if word != "shipped" {
				return false, fmt.Errorf("no condition %q", word)
			}
			return *shipped != "", nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"start": verb((*story).start), "stop": verb((*story).stopNode),
			"reload": verb((*story).reload), "log": verb((*story).logged),
			"http": verb((*story).http), "hammer": verb((*story).hammer),
			"cluster": verb((*story).clusterSet), "sentinels": verb((*story).sentinelSet),
			"redis": verb((*story).redisServer), "clock": verb((*story).clock),
			"upstream": verb((*story).upstream), "sockets": verb((*story).openSockets),
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// A story is what a running script has started.
type story struct {
	dir    string
	env    []string // of every node
	nodes  map[string]*node
	now    time.Duration // what the clock file says
	client *http.Client
	redis  *redistest.Server

	sockets []net.Conn // that are open

	t         testing.TB
	cluster   *redistest.ClusterSet  // if it has one
	sentinels *redistest.SentinelSet // if it has them
}

// storyKey finds the story among a script's values.
type storyKey struct{}

func newStory(env *testscript.Env) error {
	s := &story{dir: env.WorkDir, nodes: map[string]*node{}, client: newClient(1)}
	for _, n := range []string{"", "2"} {
		port, err := freePort()
		if err != nil {
			return err
		}
		env.Setenv("PORT"+n, port)
		env.Setenv("URL"+n, "http://127.0.0.1:"+port)
	}
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", examples)
	env.Setenv("HOME", s.dir)
	env.Setenv(clockFile, filepath.Join(s.dir, ".clock"))
	if err := s.setClock(0); err != nil {
		return err
	}
	t := env.T().(testing.TB)
	s.t = t
	s.redis = redistest.Reserve(t, redistest.Options{})
	env.Setenv("REDIS", s.redis.Addr())
	s.env = env.Vars
	env.Values[storyKey{}] = s
	env.Defer(func() {
		s.client.CloseIdleConnections()
		for _, n := range s.nodes {
			if err := n.stop(); err != nil {
				t.Error(err)
			}
		}
	})
	return nil
}

// setClock moves the clock of nodes whose clock stands still.
func (s *story) setClock(now time.Duration) error {
	s.now = now
	path := filepath.Join(s.dir, ".clock")
	if err := os.WriteFile(path+".new", []byte(now.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// verb makes a script's command of a method. neg is true for a command with a `!` before
// it; an error ends the script.
func verb(do func(s *story, ts *testscript.TestScript, neg bool, args []string) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(do(ts.Value(storyKey{}).(*story), ts, neg, args))
	}
}

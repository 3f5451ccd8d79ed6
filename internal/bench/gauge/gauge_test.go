package gauge

import (
	"os"
	"slices"
	"testing"
	"time"
)

func TestOver(t *testing.T) {
	for _, test := range []struct {
		all  []float64
		want Spread
	}{
		{[]float64{3, 1, 2}, Spread{1, 2, 3}},
		{[]float64{4, 1, 3, 2}, Spread{1, 2.5, 4}},
		{[]float64{5}, Spread{5, 5, 5}},
		{nil, Spread{}},
	} {
		if got := Over(test.all); got != test.want {
			t.Errorf("%v: got %v, want %v", test.all, got, test.want)
		}
	}
}

func TestRatios(t *testing.T) {
	got := Ratios([]float64{11, 30, 7}, []float64{10, 20, 0})
	if want := []float64{1.1, 1.5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDelays(t *testing.T) {
	var a, b Delays
	if a.Within(0.5) != 0 || a.Worst() != 0 {
		t.Error("an empty one has a delay")
	}
	for i := range 1000 {
		d := &a
		if i%2 == 1 {
			d = &b
		}
		d.Note(time.Duration(i+1) * time.Microsecond)
	}
	a.Note(-time.Second)
	a.Add(&b)
	if a.Count() != 1001 || a.Worst() != time.Millisecond {
		t.Errorf("got %d, at most %s", a.Count(), a.Worst())
	}
	for part, want := range map[float64]time.Duration{0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: time.Millisecond} {
		if got := a.Within(part); got < want-want/50 || got > want+want/50 {
			t.Errorf("%v: got %s, want about %s", part, got, want)
		}
	}
}

// Every number lies in the step that is named for it, and steps follow one another.
func TestSteps(t *testing.T) {
	for i := range 40 * fine {
		if got := step(top(i)); got != i {
			t.Fatalf("the top of step %d, %d, is counted in step %d", i, top(i), got)
		}
		if got := step(top(i) + 1); got != i+1 {
			t.Fatalf("after the top of step %d comes step %d", i, got)
		}
	}
}

func TestCPU(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Millisecond); time.Now().Before(end); {
	}
	after, err := CPU(os.Getpid())
	if err != nil || after <= before {
		t.Errorf("from %s to %s, %v", before, after, err)
	}
	if _, err := CPU(-1); err == nil {
		t.Error("a process that is none has used CPU")
	}
}

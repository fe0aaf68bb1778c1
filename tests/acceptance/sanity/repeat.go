package main

import (
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The pauses between attempts: those of the sidecars, which begin with 1 s and double them, but no longer than a suite
// of a hundred specs can wait.
const (
	firstPause   = time.Second
	longestPause = 4 * time.Second
)

// tally is what became of the calls of one method.
type tally struct {
	// Calls of the suite.
	Calls int `json:"calls"`
	// Attempts sent to the driver; each call has one or more.
	Sent int `json:"sent"`
	// Attempts that the deadline ended.
	CutOff int `json:"cut_off"`
	// Attempts that ended with a code other than OK, by code.
	Refused map[string]int `json:"refused"`
}

// repeater gives each call a deadline, and repeats it while its answer is not final.
type repeater struct {
	timeout time.Duration
	bound   time.Duration

	mutex sync.Mutex
	// By the method's name, such as CreateVolume.
	tallies map[string]tally
}

func newRepeater(timeout, bound time.Duration) *repeater {
	return &repeater{timeout: timeout, bound: bound, tallies: map[string]tally{}}
}

func (r *repeater) intercept(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	name := path.Base(method)
	r.count(name, func(t *tally) { t.Calls++ })
	giveUp := time.Now().Add(r.bound)
	pause := firstPause
	for {
		err := r.attempt(ctx, name, func(ctx context.Context) error {
			return invoke(ctx, method, request, reply, conn, options...)
		})
		if r.timeout == 0 || isFinal(name, status.Code(err)) || time.Now().Add(pause).After(giveUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

func (r *repeater) attempt(ctx context.Context, name string, call func(context.Context) error) error {
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.timeout)
		defer cancel()
	}
	err := call(ctx)
	r.count(name, func(t *tally) {
		t.Sent++
		if err == nil {
			return
		}
		code := status.Code(err)
		if code == codes.DeadlineExceeded {
			t.CutOff++
		}
		t.Refused[code.String()]++
	})
	return err
}

func (r *repeater) count(name string, change func(*tally)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	t, known := r.tallies[name]
	if !known {
		t.Refused = map[string]int{}
	}
	change(&t)
	r.tallies[name] = t
}

func (r *repeater) report() map[string]tally {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.tallies
}

// isFinal says whether a sidecar would take the code for the end of the request. Aborted and ResourceExhausted are no end
// for what changes something, but for CreateVolume the latter is one; a list that is Aborted had a wrong token.
func isFinal(method string, code codes.Code) bool {
	switch code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return false
	case codes.Aborted:
		return strings.HasPrefix(method, "List")
	case codes.ResourceExhausted:
		return method == "CreateVolume"
	default:
		return true
	}
}

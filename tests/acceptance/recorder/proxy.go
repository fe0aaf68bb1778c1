package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// frames hands messages on as the bytes that they are.
type frames struct{}

func (frames) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (frames) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func (frames) Name() string { return "proto" }

// connection is one of a client's, and the one to the driver that stands for it.
type connection struct {
	number int
	dial   func() (*grpc.ClientConn, error)
}

type connectionKey struct{}

// connections gives each connection of a client its number and its connection to the driver, and ends that with it.
type connections struct {
	driver string
	mutex  sync.Mutex
	count  int
}

func (c *connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.count++
	dial := sync.OnceValues(func() (*grpc.ClientConn, error) {
		return grpc.NewClient("unix://"+c.driver, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithAuthority("localhost"), grpc.WithDefaultCallOptions(grpc.ForceCodec(frames{})))
	})
	return context.WithValue(ctx, connectionKey{}, &connection{number: c.count, dial: dial})
}

func (c *connections) HandleConn(ctx context.Context, event stats.ConnStats) {
	if _, ended := event.(*stats.ConnEnd); !ended {
		return
	}
	if to, err := of(ctx).dial(); err == nil {
		_ = to.Close()
	}
}

func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (*connections) HandleRPC(context.Context, stats.RPCStats)                       {}

func of(ctx context.Context) *connection { return ctx.Value(connectionKey{}).(*connection) }

func newServer(client, driver string, tape *tape) *grpc.Server {
	return grpc.NewServer(
		grpc.ForceServerCodec(frames{}),
		grpc.StatsHandler(&connections{driver: driver}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			return handOn(client, stream, tape)
		}),
	)
}

// handOn makes one call of the driver with the client's deadline, and writes both sides down. All of CSI's calls that a
// sidecar makes are of one message each way.
func handOn(client string, stream grpc.ServerStream, tape *tape) error {
	ctx := stream.Context()
	method, _ := grpc.MethodFromServerStream(stream)
	var request, reply []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	began := time.Now()
	call := call{client: client, connection: of(ctx).number, method: method, began: began, request: request}
	if deadline, ok := ctx.Deadline(); ok {
		call.deadline = deadline.Sub(began)
	}
	place := tape.begin(call)
	to, err := of(ctx).dial()
	if err == nil {
		err = to.Invoke(ctx, method, &request, &reply)
	}
	call.end(ctx, reply, err)
	tape.end(place, call)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&reply); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// end notes how the client saw the call end: with an answer, by its deadline, or because it went away.
func (c *call) end(ctx context.Context, reply []byte, err error) {
	c.took = time.Since(c.began)
	c.reply, c.status = reply, status.Convert(err)
	switch {
	// A client that gives up in time is often heard before the clock here says so.
	case errors.Is(ctx.Err(), context.DeadlineExceeded), c.status.Code() == codes.DeadlineExceeded,
		ctx.Err() != nil && c.deadline > 0 && c.took > c.deadline-100*time.Millisecond:
		c.ending = "deadline"
	case ctx.Err() != nil:
		c.ending = "gone"
	default:
		c.ending = "answered"
	}
}

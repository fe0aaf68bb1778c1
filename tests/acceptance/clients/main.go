// Calls a CSI driver through grpc-go, in all ways in which known programs dial it. Prints one line for each way, and exits
// with 1 unless all calls succeeded. Uses only what all the built versions of grpc-go have (versions/).
//
// Usage: clients SOCKET [METHOD TEXT]   (the absolute path of a unix socket)
//
// With METHOD, such as /pluginregistration.Registration/GetInfo, calls this method instead of a driver's services. Its answer
// must begin with field 1, the string TEXT.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
)

// The method to call first, how its answer begins, and the method to call next, whose answer is not checked.
var (
	method, text = "/csi.v1.Identity/GetPluginInfo", "ebs.csi.aws.com"
	then         = "/csi.v1.Controller/ControllerGetCapabilities"
)

const (
	// A busy machine may be slow. No test relies on this timeout.
	bound = 2 * time.Minute
	// Each call sends a header field of this size with a new value. Together they replace all entries of the dynamic
	// table (4096 bytes) several times, including the authority.
	calls, ballast = 40, 500
)

type dialing = func(target string, options ...grpc.DialOption) (*grpc.ClientConn, error)

// A way to dial.
type way struct {
	name   string
	target string
	dial   dialing
	// In addition to those that all ways have.
	options []grpc.DialOption
}

// Messages are raw bytes, because generated code would require a particular version of grpc-go.
type bytesCodec struct{}

func (bytesCodec) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (bytesCodec) Name() string { return "proto" }

func main() {
	if (len(os.Args) != 2 && len(os.Args) != 4) || !filepath.IsAbs(os.Args[1]) {
		fmt.Fprintln(os.Stderr, "usage: clients SOCKET [METHOD TEXT] (an absolute path)")
		os.Exit(2)
	}
	socket := os.Args[1]
	if len(os.Args) == 4 {
		method, text, then = os.Args[2], os.Args[3], os.Args[2]
	}
	if err := os.Chdir(filepath.Dir(socket)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Println("grpc-go", grpc.Version)
	failed := false
	for _, w := range ways(socket) {
		if err := w.try(); err != nil {
			fmt.Printf("FAILED %s: %v\n", w.name, err)
			failed = true
		} else {
			fmt.Printf("ok %s\n", w.name)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func dial(target string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return grpc.DialContext(ctx, target, append(options, grpc.WithBlock())...)
}

// Connects to the socket and ignores the given address.
func dialer(socket string) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	})
}

func ways(socket string) []way {
	own, relative := dialer(socket), "unix:"+filepath.Base(socket)
	all := []way{
		{name: "the path and a dialer", target: socket, options: []grpc.DialOption{own}},
		{name: "unix:///path and a dialer", target: "unix://" + socket, options: []grpc.DialOption{own}},
		{name: "passthrough:///path and a dialer", target: "passthrough:///" + socket, options: []grpc.DialOption{own}},
		{name: "passthrough:///unix:///path and a dialer", target: "passthrough:///unix://" + socket, options: []grpc.DialOption{own}},
		{name: "dns:///address and a dialer", target: "dns:///127.0.0.1:1", options: []grpc.DialOption{own}},
		{name: "no target and a dialer", target: "", options: []grpc.DialOption{own}},
		{name: "a path of Windows and a dialer", target: `C:\csi\csi.sock`, options: []grpc.DialOption{own}},
		{name: "a pipe of Windows and a dialer", target: `\\.\pipe\csi-proxy-disk-v1`, options: []grpc.DialOption{own}},
	}
	for _, authority := range []string{
		"localhost", "csi.example:443", socket, strings.ReplaceAll(socket, "/", "%2F"), `\\.\pipe\csi`, "two words",
		"a:1:2", "[::1", "ünïcode", "{}|^`<>\"", strings.Repeat("/long", 1200),
	} {
		all = append(all, way{
			name:    fmt.Sprintf("authority %.40q", authority),
			target:  "passthrough:///csi",
			options: []grpc.DialOption{own, grpc.WithAuthority(authority)},
		})
	}
	for i := range all {
		all[i].dial = dial
	}
	// grpc-go before 2021 does not support unix sockets itself.
	if resolver.Get("unix") != nil {
		all = append(all,
			way{name: "unix:///path", target: "unix://" + socket, dial: dial},
			way{name: "unix:/path", target: "unix:" + socket, dial: dial},
			way{name: "unix:relative", target: relative, dial: dial},
		)
	}
	if newClient != nil {
		all = append(all,
			way{name: "new client, unix:///path", target: "unix://" + socket, dial: newClient},
			way{name: "new client, unix:relative", target: relative, dial: newClient},
			way{name: "new client, passthrough:///path and a dialer", target: "passthrough:///" + socket, dial: newClient, options: []grpc.DialOption{own}},
			way{name: "new client, an address and a dialer", target: "127.0.0.1:1", dial: newClient, options: []grpc.DialOption{own}},
		)
	}
	return all
}

func (w way) try() error {
	options := []grpc.DialOption{grpc.WithInsecure(), grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{}))}
	connection, err := w.dial(w.target, append(options, w.options...)...)
	if err != nil {
		return fmt.Errorf("dial %q: %w", w.target, err)
	}
	defer connection.Close()
	for i := 0; i < calls; i++ {
		if err := call(connection, i); err != nil {
			return fmt.Errorf("call %d through %q: %w", i, w.target, err)
		}
	}
	return nil
}

func call(connection *grpc.ClientConn, i int) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "ballast", strings.Repeat(string(rune('a'+i%26)), ballast))
	request, answer := []byte{}, []byte{}
	if err := connection.Invoke(ctx, method, &request, &answer); err != nil {
		return err
	}
	// Field 1 is a string: tag, length (below 128) and bytes.
	if wanted := "\x0a" + string(rune(len(text))) + text; !strings.HasPrefix(string(answer), wanted) {
		return fmt.Errorf("%s says %q", method, answer)
	}
	return connection.Invoke(ctx, then, &request, &answer)
}

// recorder stands between CSI clients and a driver, and writes down what each client sends and hears.
//
//	recorder -driver /run/driver.sock -out life.jsonl provisioner=/run/p.sock attacher=/run/a.sock
//
// Each client has a socket of its own and is recorded under its name. A connection of a client is a connection to the driver,
// so the driver sees whose connection ends. On SIGTERM the calls are written, one JSON line each in the order in which they
// began, with secrets blanked and everything that is another in each run replaced: see normal.go.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"google.golang.org/grpc"
)

func main() {
	driver := flag.String("driver", "", "path of the driver's socket")
	out := flag.String("out", "", "file to write at the end")
	head := flag.String("head", "{}", "the first line of that file: JSON about the recording")
	flag.Parse()
	if *driver == "" || *out == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: recorder -driver SOCKET -out FILE [-head JSON] CLIENT=SOCKET...")
		os.Exit(2)
	}
	if err := run(*driver, *out, *head, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

func run(driver, out, head string, clients []string) error {
	// Taken before anything listens: who sees a socket may end this.
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	tape := newTape()
	var servers []*grpc.Server
	failed := make(chan error, len(clients))
	for _, client := range clients {
		name, socket, ok := strings.Cut(client, "=")
		if !ok {
			return fmt.Errorf("%q is not CLIENT=SOCKET", client)
		}
		listener, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		server := newServer(name, driver, tape)
		servers = append(servers, server)
		go func() { failed <- server.Serve(listener) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ended:
	}
	for _, server := range servers {
		server.Stop()
	}
	return tape.write(out, head)
}

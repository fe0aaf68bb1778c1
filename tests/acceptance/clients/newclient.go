//go:build !before_newclient

package main

import "google.golang.org/grpc"

// Connects at its first use. In grpc-go since 2024.
var newClient dialing = grpc.NewClient

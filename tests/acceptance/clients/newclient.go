//go:build !before_newclient

package main

import "google.golang.org/grpc"

// Connects when it is used; in grpc-go since 2024.
var newClient dialing = grpc.NewClient

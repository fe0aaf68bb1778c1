//go:build before_newclient

package main

var newClient dialing

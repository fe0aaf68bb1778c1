package main

import (
	"crypto/rand"
	"encoding/hex"
)

// ec2IDs makes ids that EC2 could have given and has not: who does not know them has asked EC2.
type ec2IDs struct{}

func (ec2IDs) GenerateUniqueValidVolumeID() string { return "vol-0" + digits() }
func (ec2IDs) GenerateInvalidVolumeID() string     { return "vol-of-nobody" }
func (ec2IDs) GenerateUniqueValidNodeID() string   { return "i-0" + digits() }
func (ec2IDs) GenerateInvalidNodeID() string       { return "i-of-nobody" }

func digits() string {
	bytes := make([]byte, 8)
	// Never fails: crypto/rand ends the program instead.
	_, _ = rand.Read(bytes)
	return hex.EncodeToString(bytes)
}

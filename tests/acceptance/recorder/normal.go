package main

import (
	"fmt"
	"regexp"
)

// What EC2 and the driver choose becomes a placeholder, numbered by first appearance: `{volume 1}`. What the client chooses
// stays a word that a driver understands, but the same in each recording.
var (
	chosenByEC2 = []struct {
		word    string
		pattern *regexp.Regexp
	}{
		{"volume", regexp.MustCompile(`vol-[0-9a-f]{17}`)},
		{"snapshot", regexp.MustCompile(`snap-[0-9a-f]{17}`)},
		{"instance", regexp.MustCompile(`\bi-[0-9a-f]{17}`)},
	}
	uuid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	identity = regexp.MustCompile(`"\d+-\d+-ebs\.csi\.aws\.com"`)
	moment   = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z`)
	version  = regexp.MustCompile(`("vendor_version":)"[^"]*"`)
)

func normalised(text string) string {
	for _, kind := range chosenByEC2 {
		text = numbered(text, kind.pattern, func(n int) string { return fmt.Sprintf("{%s %d}", kind.word, n) })
	}
	text = numbered(text, uuid, func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) })
	text = identity.ReplaceAllString(text, `"1-1-ebs.csi.aws.com"`)
	text = moment.ReplaceAllString(text, "{time}")
	return version.ReplaceAllString(text, `${1}"{version}"`)
}

// numbered replaces each match by what its place among the different matches gives.
func numbered(text string, pattern *regexp.Regexp, name func(int) string) string {
	names := map[string]string{}
	return pattern.ReplaceAllStringFunc(text, func(found string) string {
		if _, known := names[found]; !known {
			names[found] = name(len(names) + 1)
		}
		return names[found]
	})
}

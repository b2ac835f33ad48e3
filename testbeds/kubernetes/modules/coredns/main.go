// Command coredns is CoreDNS with the plugins that a cluster's own names need; the full list pulls in far more modules.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
)

func init() { // the order in which a query passes through them
	dnsserver.Directives = []string{"health", "ready", "errors", "log", "cache", "kubernetes"}
}

func main() { coremain.Run() }

// CoreDNS with only the plugins that a cluster's DNS needs, so that it builds in seconds: the whole
// program contains the clients of all large clouds.
//
//	coredns -conf COREFILE
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	coremain.Run()
}

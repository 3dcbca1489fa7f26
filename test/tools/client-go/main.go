// Parts of client-go, for comparison with those of a site.
//
//	client-go informer -kubeconfig FILE -namespace NAMESPACE
//	client-go elect -kubeconfig FILE -namespace NAMESPACE -lease NAME -identity NAME -duration 15s
//
// Both end with their standard input, and so with the process that started them.
package main

import (
	"flag"
	"io"
	"log"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: client-go informer|elect")
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "")
	namespace := flags.String("namespace", "default", "")
	lease := flags.String("lease", "", "")
	identity := flags.String("identity", "", "")
	duration := flags.Duration("duration", 15*time.Second, "")
	_ = flags.Parse(os.Args[2:])
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	switch os.Args[1] {
	case "informer":
		inform(client, *namespace)
	case "elect":
		elect(client, *namespace, *lease, *identity, *duration)
	default:
		log.Fatal("usage: client-go informer|elect")
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

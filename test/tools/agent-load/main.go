// Speaks to a site as many agents at once, or to a SPIRE server as many SPIRE agents: the load of
// bench/agents.ts, and an independent client of proto/agent.proto. Messages are written by hand, so
// that neither side costs the client more.
//
//	agent-load -api hansa -address HOST:PORT -trust-domain NAME -identities FILE
//	agent-load -api spire -address HOST:PORT -trust-domain NAME -socket PATH
//
// It reads one command per line from standard input, and answers each with one line of JSON:
//
//	connect N                 connects until N agents are connected; answers when each has its state
//	expect TEXT               answers at once; a second line follows when every connected agent has
//	                          received an item whose value contains TEXT
//	lost                      answers at once; a second line follows when every agent that was connected
//	                          has lost its stream and has its state again on a new one
//	sign SECONDS BATCH        every agent asks for SVIDs in batches, one batch at a time
//
// Times are in milliseconds since 1970. The program ends when standard input ends, or with a message on
// standard error when an agent is refused.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fleet is what both kinds of agents can do.
type fleet interface {
	// connect resolves when n agents have their state. It is called with growing numbers.
	connect(n int) error
	// expect returns a channel that gets one time for each connected agent.
	expect(text string) (<-chan time.Time, int, error)
	lost() (<-chan time.Time, int, error)
	// sign asks for one batch as agent number i, and returns how many SVIDs came back.
	sign(i, batch int) (int, error)
	size() int
}

type options struct {
	address, trustDomain, identities, socket string
}

func main() {
	var given options
	api := flag.String("api", "hansa", "hansa or spire")
	flag.StringVar(&given.address, "address", "", "host and port of the site or SPIRE server")
	flag.StringVar(&given.trustDomain, "trust-domain", "", "of the site or SPIRE server")
	flag.StringVar(&given.identities, "identities", "", "a file with the identities of the agents")
	flag.StringVar(&given.socket, "socket", "", "of the SPIRE server's API for administrators")
	flag.Parse()
	var agents fleet
	var err error
	if *api == "spire" {
		agents, err = newSpireFleet(given)
	} else {
		agents, err = newHansaFleet(given)
	}
	if err == nil {
		err = serve(agents)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(agents fleet) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.SplitN(lines.Text(), " ", 3)
		if err := obey(agents, words); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

func obey(agents fleet, words []string) error {
	switch {
	case words[0] == "connect" && len(words) == 2:
		count, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		began := time.Now()
		if err := agents.connect(count); err != nil {
			return err
		}
		return answer(map[string]float64{"startMs": ms(began), "lastMs": ms(time.Now())})
	case words[0] == "expect" && len(words) == 2:
		return waitForAll(agents.expect(words[1]))
	case words[0] == "lost" && len(words) == 1:
		return waitForAll(agents.lost())
	case words[0] == "sign" && len(words) == 3:
		seconds, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			return err
		}
		batch, err := strconv.Atoi(words[2])
		if err != nil {
			return err
		}
		return signFor(agents, seconds, batch)
	}
	return errors.New("there is no such command")
}

// waitForAll says at once that it waits, so that the caller can bring about what it waits for.
func waitForAll(reached <-chan time.Time, count int, err error) error {
	if err != nil {
		return err
	}
	if err := answer(map[string]int{"waiting": count}); err != nil {
		return err
	}
	var first, last time.Time
	for range count {
		at := <-reached
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return answer(map[string]float64{"firstMs": ms(first), "lastMs": ms(last)})
}

type signed struct {
	Issued    int     `json:"issued"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50Milliseconds"`
	P99       float64 `json:"p99Milliseconds"`
}

func signFor(agents fleet, seconds float64, batch int) error {
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	var group sync.WaitGroup
	var lock sync.Mutex
	var all []time.Duration
	var failure error
	issued := 0
	began := time.Now()
	for i := range agents.size() {
		group.Go(func() {
			var times []time.Duration
			var err error
			count := 0
			for time.Now().Before(end) && err == nil {
				asked := time.Now()
				var got int
				got, err = agents.sign(i, batch)
				count += got
				times = append(times, time.Since(asked))
			}
			lock.Lock()
			defer lock.Unlock()
			all = append(all, times...)
			issued += count
			failure = errors.Join(failure, err)
		})
	}
	group.Wait()
	if failure != nil {
		return failure
	}
	took := time.Since(began).Seconds()
	slices.Sort(all)
	at := func(share float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return all[int(share*float64(len(all)-1))].Seconds() * 1000
	}
	return answer(signed{issued, took, float64(issued) / took, at(0.5), at(0.99)})
}

func answer(value any) error { return json.NewEncoder(os.Stdout).Encode(value) }

func ms(at time.Time) float64 { return float64(at.UnixMicro()) / 1000 }

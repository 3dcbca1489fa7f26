// Tlog-witness is a C2SP witness written by others, github.com/transparency-dev/witness, with a key of its
// own that it makes at start. It serves add-checkpoint on a port of loopback that the system chooses, for the
// logs whose verifier keys are its arguments, and prints its URL and its verifier key as JSON.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"

	f_note "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(keys []string) error {
	logs := map[string]note.Verifier{}
	for _, key := range keys {
		v, err := note.NewVerifier(key)
		if err != nil {
			return err
		}
		logs[v.Name()] = v
	}
	secret, public, err := note.GenerateKey(rand.Reader, "witness.example")
	if err != nil {
		return err
	}
	signer, err := f_note.NewSignerForCosignatureV1(secret)
	if err != nil {
		return err
	}
	key, err := f_note.VKeyToCosignatureV1(public)
	if err != nil {
		return err
	}
	w, err := witness.New(context.Background(), witness.Opts{
		Persistence: inmemory.New(),
		Signers:     []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			v, ok := logs[origin]
			return v, ok, nil
		},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", witness.NewHTTPHandler(w).AddCheckpoint)
	json.NewEncoder(os.Stdout).Encode(map[string]string{
		"url": "http://" + listener.Addr().String() + "/add-checkpoint",
		"key": key,
	})
	return http.Serve(listener, mux)
}

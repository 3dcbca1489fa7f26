// Tlog verifies checkpoints, cosignatures and proofs of audit logs with golang.org/x/mod/sumdb. It reads
// JSON from standard input, a list of claims, and writes for each what it says: "" if it is true.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type claim struct {
	// A note and the keys that must have signed it.
	Note string   `json:"note"`
	Keys []string `json:"keys"`
	// The note's tree holds this record at this index.
	Record    *string  `json:"record"`
	Index     int64    `json:"index"`
	Inclusion []string `json:"inclusion"`
	// The note's tree extends the tree of this note.
	Earlier     string   `json:"earlier"`
	Consistency []string `json:"consistency"`
}

type answer struct {
	Problem string `json:"problem"`
	// The signatures that verified, as key names.
	Signers []string `json:"signers"`
	Size    int64    `json:"size"`
}

func main() {
	var claims []claim
	if err := json.NewDecoder(os.Stdin).Decode(&claims); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	answers := make([]answer, len(claims))
	for i, c := range claims {
		if err := judge(c, &answers[i]); err != nil {
			answers[i].Problem = err.Error()
		}
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}

func judge(c claim, a *answer) error {
	head, signers, err := open(c.Note, c.Keys)
	if err != nil {
		return err
	}
	a.Signers, a.Size = signers, head.N
	if c.Record != nil {
		path, err := hashes(c.Inclusion)
		if err != nil {
			return err
		}
		leaf := tlog.RecordHash([]byte(*c.Record))
		if err := tlog.CheckRecord(path, head.N, head.Hash, c.Index, leaf); err != nil {
			return fmt.Errorf("inclusion: %w", err)
		}
	}
	if c.Earlier != "" {
		old, _, err := open(c.Earlier, c.Keys)
		if err != nil {
			return err
		}
		path, err := hashes(c.Consistency)
		if err != nil {
			return err
		}
		if err := tlog.CheckTree(path, head.N, head.Hash, old.N, old.Hash); err != nil {
			return fmt.Errorf("consistency: %w", err)
		}
	}
	return nil
}

func open(text string, keys []string) (tlog.Tree, []string, error) {
	var verifiers []note.Verifier
	for _, key := range keys {
		v, err := verifier(key)
		if err != nil {
			return tlog.Tree{}, nil, err
		}
		verifiers = append(verifiers, v)
	}
	n, err := note.Open([]byte(text), note.VerifierList(verifiers...))
	if err != nil {
		return tlog.Tree{}, nil, err
	}
	var signers []string
	for _, s := range n.Sigs {
		signers = append(signers, s.Name)
	}
	tree, err := head(n.Text)
	return tree, signers, err
}

// The body of c2sp.org/tlog-checkpoint. tlog.ParseTree reads only that of the Go checksum database.
func head(text string) (tlog.Tree, error) {
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) != 4 {
		return tlog.Tree{}, errors.New("no checkpoint")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return tlog.Tree{}, err
	}
	hash, err := tlog.ParseHash(lines[2])
	return tlog.Tree{N: size, Hash: hash}, err
}

func hashes(texts []string) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(texts))
	for i, text := range texts {
		var err error
		if out[i], err = tlog.ParseHash(text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// verifier reads a verifier key. The note package knows Ed25519 (type 1). Cosignatures (type 4) are
// verified here by the text of c2sp.org/tlog-cosignature.
func verifier(vkey string) (note.Verifier, error) {
	name, rest, _ := strings.Cut(vkey, "+")
	id, encoded, _ := strings.Cut(rest, "+")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	if len(key) == 0 || key[0] != 4 {
		return note.NewVerifier(vkey)
	}
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	if len(key) != 1+ed25519.PublicKeySize || fmt.Sprintf("%x", sum[:4]) != id {
		return nil, errors.New("malformed key of a witness")
	}
	return &witness{name, binary.BigEndian.Uint32(sum[:4]), key[1:]}, nil
}

type witness struct {
	name string
	id   uint32
	key  ed25519.PublicKey
}

func (w *witness) Name() string    { return w.name }
func (w *witness) KeyHash() uint32 { return w.id }

func (w *witness) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	var signed bytes.Buffer
	fmt.Fprintf(&signed, "cosignature/v1\ntime %d\n", binary.BigEndian.Uint64(sig))
	signed.Write(msg)
	return ed25519.Verify(w.key, signed.Bytes(), sig[8:])
}

// The transcript that the key of a workload signs when an agent requests an X.509-SVID for it. So the
// site signs only a key whose holder takes part in this connection and this request. Pure.
//
//   64 spaces, "hansa agent sign v1", one zero byte, and for each of the fields below, in this order:
//   the length of its label, the label, the length of its value, the value. Lengths are four bytes,
//   big-endian. `request` is in decimal, and `tls-exporter` and `public-key` are bytes.
//
// The signature is ECDSA in DER with the hash of the curve's size, RSA-PSS with SHA-256 and a salt of 32
// bytes, or Ed25519.

import { encodeTranscript } from '../join/transcript.ts';

export interface SigningTranscript {
  readonly trustDomain: string;
  /** The name of the agent. */
  readonly agent: string;
  /** RFC 5705: bytes that only the two ends of the connection know. Label and length are in core/agent/limits.ts. */
  readonly exporter: Uint8Array;
  /** `SignRequest.id`. */
  readonly request: bigint;
  /** The uid of the WorkloadEntry. */
  readonly entry: string;
  /** A SubjectPublicKeyInfo in DER. */
  readonly publicKey: Uint8Array;
}

/** `signTranscript` in trust/join/proof.ts signs it, and `checkTranscript` there verifies it. */
export function signingTranscript(of: SigningTranscript): Buffer {
  return encodeTranscript(
    [
      ['trust-domain', of.trustDomain],
      ['agent', of.agent],
      ['tls-exporter', of.exporter],
      ['request', of.request.toString()],
      ['entry', of.entry],
      ['public-key', of.publicKey],
    ],
    'hansa agent sign v1',
  );
}

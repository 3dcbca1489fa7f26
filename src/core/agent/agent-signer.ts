// The contract between the channel and the code that signs for agents.

import type { SignRequest, SignResponse } from '../../../proto/gen/agent_pb.ts';

/** The agent that asks, as its SVID names it. */
export interface SigningAgent {
  readonly name: string;
  readonly address: string | undefined;
  /** The serial number of the SVID of the stream, in hex. */
  readonly serialHex: string;
}

/**
 * Signs a batch. `exporter` is the keying material of the connection, which proofs of possession cover.
 * Answers every request, in order; a rejection refuses all of them. Several requests of one agent run at
 * once, at most `maxUnansweredSignRequests` per stream, and may finish in any order. The channel checked
 * only the number of requests.
 */
export type SignForAgent = (
  agent: SigningAgent,
  request: SignRequest,
  exporter: Buffer,
) => Promise<SignResponse>;

// The part of the channel that issuing needs: sends signing requests to the site, and says how long the
// site has not been reachable.

import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  JwtRequestSchema,
  SignResponse,
  X509RequestSchema,
} from '../../../proto/gen/agent_pb.ts';
import type { SignBinding } from '../../core/agent/sign-requests.ts';

export interface SignContent {
  readonly x509: MessageInitShape<typeof X509RequestSchema>[];
  readonly jwt: MessageInitShape<typeof JwtRequestSchema>[];
}

export interface SigningLink {
  /**
   * Sends one SignRequest, and calls `build` when it does. Rejects with HANSA_UNAVAILABLE without a
   * connection, when the connection ends, or when no response comes in time. Does not retry.
   */
  sign(build: (binding: SignBinding) => SignContent): Promise<SignResponse>;
  /** How long the agent has had no contact with the site; undefined: it has. See AgentContext. */
  offlineMs(): number | undefined;
}

// The contract of gRPC methods that a plane serves on the federation listener and the admin socket.

import type { ServerHttp2Stream } from 'node:http2';
import type { GrantScope } from '../../api/kinds/federation-grant.ts';
import type { ValidatedSvid } from '../identity/x509/svid-validator.ts';
import type { JoinedAgent, LivePeer } from './route.ts';

/** One call of a bidirectional gRPC method. Messages are bytes; the plane encodes them. */
export interface PlaneCall {
  readonly address: string | undefined;
  /** The SVID of the connection, where the site's bundles verify it now. */
  readonly svid: ValidatedSvid | undefined;
  /** RFC 5705, RFC 8446 §7.5: bytes that only the two ends of this connection know. */
  exportKeyingMaterial(label: string, length: number): Buffer;
  /** The next message; undefined where the caller closed its half. Rejects where the call ended or timed out. */
  read(): Promise<Buffer | undefined>;
  /** Resolves when there is room for the next message. A slow reader only delays its own call. */
  write(message: Uint8Array): Promise<void>;
  /** Aborted when the caller disconnects or loses its rights, or the site stops. */
  readonly signal: AbortSignal;
}

export interface PeerCall extends PlaneCall {
  readonly peer: LivePeer;
}

export interface AgentCall extends PlaneCall {
  readonly agent: JoinedAgent;
  /** Whether the authority of the agent's SVID was revoked: see `graceMs`. The caller may be a thief with its key. */
  readonly isRevoked?: boolean;
}

interface RpcBase {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Largest message; a larger one ends the call with RESOURCE_EXHAUSTED. */
  readonly maxMessageBytes: number;
  /** Timeout of one message: to arrive completely when read, or to be accepted when written. */
  readonly messageWithinMs: number;
  /** Idle timeout: the call ends after this time without a message in either direction. */
  readonly idleMs: number;
}

/**
 * A bidirectional gRPC method on the federation listener. Returning ends the call with OK; throwing a
 * HansaError ends it with the gRPC status of its code. A call lasts as long as its messages arrive
 * in time. If the caller must be known, the call also ends when its certificate expires or its trust is
 * withdrawn. Calls have their own quota, per identity and in total.
 */
export type PlaneRpc =
  | (RpcBase & { readonly allow: 'public'; handle(call: PlaneCall): Promise<void> })
  | (RpcBase & {
      readonly allow: 'peer';
      readonly scope?: GrantScope;
      handle(call: PeerCall): Promise<void>;
    })
  | (RpcBase & {
      readonly allow: 'agent';
      /**
       * How long an open call continues after the authority of the agent's SVID was revoked, so that the
       * agent can still get the new bundle. Without that bundle, it could never reach the site again.
       */
      readonly graceMs?: number;
      handle(call: AgentCall): Promise<void>;
    });

/**
 * A gRPC method on the admin socket, which only the owner can open. The plane gets the stream of a POST
 * with this path and handles everything else, including limits.
 */
export interface AdminCall {
  /** `/package.Service/Method`. */
  readonly path: string;
  handle(stream: ServerHttp2Stream): void;
}

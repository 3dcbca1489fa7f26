// The contract of gRPC methods that a plane serves: on the federation listener and the admin socket.

import type { ServerHttp2Stream } from 'node:http2';
import type { GrantScope } from '../../api/kinds/federation-grant.ts';
import type { ValidatedSvid } from '../identity/x509/svid-validator.ts';
import type { JoinedAgent, LivePeer } from './route.ts';

/** One call of a bidirectional gRPC method. Messages are bytes: the plane gives them a meaning. */
export interface PlaneCall {
  readonly address: string | undefined;
  /** The SVID of the connection, where the site's bundles verify it now. */
  readonly svid: ValidatedSvid | undefined;
  /** RFC 5705, RFC 8446 §7.5: bytes that only the two ends of this very connection can know. */
  exportKeyingMaterial(label: string, length: number): Buffer;
  /** The next message; undefined where the caller has ended its half. Rejects where the call is over or late. */
  read(): Promise<Buffer | undefined>;
  /** Resolves when there is room for the next message: a slow reader makes its own call wait, and no other. */
  write(message: Uint8Array): Promise<void>;
  /** Aborted when the caller is gone, may not call any more, or the site stops. */
  readonly signal: AbortSignal;
}

export interface PeerCall extends PlaneCall {
  readonly peer: LivePeer;
}

export interface AgentCall extends PlaneCall {
  readonly agent: JoinedAgent;
}

interface RpcBase {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Of one message; a larger one ends the call with RESOURCE_EXHAUSTED. */
  readonly maxMessageBytes: number;
  /** How long a message may take: one that is awaited to arrive whole, one that is written to be taken. */
  readonly messageWithinMs: number;
  /** The call ends after so long without a message in either direction. */
  readonly idleMs: number;
}

/**
 * A bidirectional gRPC method on the federation listener. Returning ends the call with OK; throwing a
 * HansaError ends it with the gRPC status of its code. A call lasts as long as its messages come in
 * time. One whose caller must be known ends when its certificate expires and when its trust is gone.
 * Calls count against a share of their own, by identity and in total.
 */
export type PlaneRpc =
  | (RpcBase & { readonly allow: 'public'; handle(call: PlaneCall): Promise<void> })
  | (RpcBase & {
      readonly allow: 'peer';
      readonly scope?: GrantScope;
      handle(call: PeerCall): Promise<void>;
    })
  | (RpcBase & { readonly allow: 'agent'; handle(call: AgentCall): Promise<void> });

/**
 * A gRPC method on the admin socket, for whoever owns the site: no one else can open it. The plane is
 * given the stream of a POST with this path and does everything from there, also its bounds.
 */
export interface AdminCall {
  /** `/package.Service/Method`. */
  readonly path: string;
  handle(stream: ServerHttp2Stream): void;
}

// The channel between agents and replicas of their site on the simulated network: both real ends, with
// messages in place of TLS and gRPC.

import type { SiteStream } from '../../src/core/agent/agent-link.ts';
import { type CoreErrorCode, HansaError, toHansaError } from '../../src/core/errors/error.ts';
import type { AgentCall, PlaneRpc } from '../../src/core/plane/stream.ts';
import type { MessageStream } from './node-transport.ts';
import type { Process } from './simulation.ts';

export const channelPath = '/agents';

type Message =
  | { readonly bytes: string }
  | { readonly code: CoreErrorCode; readonly message: string };

/** TLS gives both ends of a connection the same bytes. Nothing is signed here. */
const exporter = Buffer.alloc(32);

/** The agent's end. */
export async function openChannel(process: Process, replica: string): Promise<SiteStream> {
  const stream = await process.transport.open(replica, channelPath);
  return {
    exporter,
    backlogBytes: 0,
    read: async () => {
      const message = (await stream.receive()) as Message | undefined;
      if (message === undefined) throw new HansaError('HANSA_UNREACHABLE', 'The stream ended.');
      if ('code' in message) throw new HansaError(message.code, message.message);
      return Buffer.from(message.bytes, 'base64');
    },
    write: (bytes) => stream.send({ bytes: Buffer.from(bytes).toString('base64') }),
    close: () => stream.close(),
  };
}

export interface ServedChannel {
  readonly process: Process;
  readonly rpc: Extract<PlaneRpc, { readonly allow: 'agent' }>;
  /** Why the site refuses this agent now; undefined where it does not. */
  refusal(agent: string): HansaError | undefined;
}

/** The site's end. The server ends the calls of an agent that it no longer knows. */
export class AgentCalls {
  readonly #served: ServedChannel;
  readonly #open = new Map<string, Set<(error: HansaError) => void>>();

  constructor(served: ServedChannel) {
    this.#served = served;
    served.process.transport.serve({
      stream: (from, path, stream) => {
        if (path === channelPath) served.process.spawn(() => this.#serve(from, stream));
      },
    });
  }

  /** The agent may have been forgotten. */
  check(agent: string): void {
    const refusal = this.#served.refusal(agent);
    if (refusal === undefined) return;
    for (const end of this.#open.get(agent) ?? []) end(refusal);
  }

  async #serve(agent: string, stream: MessageStream): Promise<void> {
    const over = new AbortController();
    const refused = Promise.withResolvers<never>();
    refused.promise.catch(() => undefined);
    const end = (error: HansaError): void => {
      refused.reject(error);
      over.abort(error);
    };
    const ends = this.#open.get(agent) ?? new Set();
    this.#open.set(agent, ends.add(end));
    try {
      const refusal = this.#served.refusal(agent);
      if (refusal !== undefined) throw refusal;
      const call: AgentCall = {
        address: undefined,
        svid: undefined,
        agent: { name: agent },
        exportKeyingMaterial: () => exporter,
        read: async () => {
          const message = (await Promise.race([stream.receive(), refused.promise])) as
            | { readonly bytes: string }
            | undefined;
          return message === undefined ? undefined : Buffer.from(message.bytes, 'base64');
        },
        write: (bytes) => {
          over.signal.throwIfAborted();
          stream.send({ bytes: Buffer.from(bytes).toString('base64') });
          return Promise.resolve();
        },
        signal: over.signal,
      };
      await Promise.race([this.#served.rpc.handle(call), refused.promise]);
    } catch (error) {
      const { general: code, message } = toHansaError(error);
      stream.send({ code, message });
    } finally {
      over.abort(new Error('the call has ended'));
      ends.delete(end);
      stream.close();
    }
  }
}

// A name server that fails, in a way that the first label of the name says: it knows no name, it fails, or it is
// silent. For clients that must say what is wrong with a name.

import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';

export const nameFaults = ['no-such-host', 'name-server-fails', 'name-server-silent'] as const;
export type NameFault = (typeof nameFaults)[number];

const portOfDns = 53;
/** RFC 1035, section 4.1.1. */
const headerBytes = 12;
const responseCodes: Readonly<Partial<Record<string, number>>> = {
  'no-such-host': 3,
  'name-server-fails': 2,
};

export class FailingNames {
  readonly #socket: Socket;

  /** Listens on the port of DNS of this address. */
  static async start(address: string): Promise<FailingNames> {
    const socket = createSocket('udp4');
    socket.on('message', (query, { port, address: from }) => {
      const answer = answerTo(query);
      if (answer !== undefined) socket.send(answer, port, from);
    });
    socket.bind(portOfDns, address);
    await once(socket, 'listening');
    return new FailingNames(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  stop(): void {
    this.#socket.close();
  }
}

/** Undefined: none. */
function answerTo(query: Buffer): Buffer | undefined {
  const length = query[headerBytes] ?? 0;
  const label = query.toString('latin1', headerBytes + 1, headerBytes + 1 + length);
  const code = responseCodes[label.toLowerCase()];
  if (code === undefined) return undefined;
  const question = query.indexOf(0, headerBytes) + 5;
  const answer = Buffer.from(query.subarray(0, question));
  // A response to a query that wished recursion, which is available.
  answer.writeUInt16BE(0x8180 | code, 2);
  answer.fill(0, 6, headerBytes);
  return answer;
}

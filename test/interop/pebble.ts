// Runs Pebble, the ACME test server. It validates challenges on free ports and resolves names with the
// test's own name server.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import { credentialOf, forge, purposes } from '../../src/core/identity/x509/test-forge.ts';
import { freePort } from '../e2e/free-ports.ts';
import type { ToolName } from '../tools/build.ts';
import { requireTool } from './tool.ts';

export interface PebbleOptions {
  readonly folder: string;
  /** Where it looks for challenges. */
  readonly httpPort: number;
  readonly tlsPort: number;
  readonly nameServer: NameServer;
  /** Of 100 good nonces it refuses so many. */
  readonly nonceReject?: number;
  /** Another build of Pebble. */
  readonly tool?: ToolName;
  /** In its own certificate, besides localhost. */
  readonly name?: string;
  /** To come back at the same place. */
  readonly port?: number;
}

export interface Pebble {
  readonly port: number;
  readonly directoryUrl: string;
  /** The authority of Pebble's own certificate: for acme.caFile. */
  readonly caFile: string;
  /** The authority of the certificates that it issues. */
  issuingRoot(): Promise<string>;
  /** How many requests it had for this path, good or bad. */
  requests(path: 'sign-me-up' | 'order-plz' | 'finalize-order'): number;
  stop(): Promise<void>;
}

/** Of a machine that does much else beside it. */
const readyWithinMs = 120_000;
/** A challenge is looked at a few times at once, which takes no more than this. */
const retryAfterSeconds = 1;

export async function startPebble(options: PebbleOptions): Promise<Pebble> {
  const { folder, httpPort, tlsPort, nameServer } = options;
  const root = forge({ ca: true });
  const own = forge({
    issuer: root,
    ca: false,
    dnsNames: ['localhost', ...(options.name === undefined ? [] : [options.name])],
    purposes: [purposes.server],
  });
  const caFile = join(folder, 'pebble-ca.pem');
  const certificate = join(folder, 'pebble.pem');
  const privateKey = join(folder, 'pebble-key.pem');
  writeFileSync(caFile, certificatePem(root.der));
  writeFileSync(certificate, credentialOf(own).certificateChain);
  writeFileSync(privateKey, credentialOf(own).privateKey);
  const port = options.port ?? (await freePort());
  const managementPort = await freePort();
  const config = join(folder, 'pebble.json');
  writeFileSync(
    config,
    JSON.stringify({
      pebble: {
        listenAddress: `127.0.0.1:${port}`,
        managementListenAddress: `127.0.0.1:${managementPort}`,
        certificate,
        privateKey,
        httpPort,
        tlsPort,
        retryAfter: { authz: retryAfterSeconds, order: retryAfterSeconds },
        keyAlgorithm: 'ecdsa',
        profiles: { default: { description: 'ninety days', validityPeriod: 90 * 24 * 3600 } },
      },
    }),
  );
  const program = await requireTool(options.tool ?? 'pebble');
  const child = spawn(program, ['-config', config, '-dnsserver', nameServer.address, '-strict'], {
    env: {
      ...process.env,
      PEBBLE_VA_NOSLEEP: '1',
      PEBBLE_AUTHZREUSE: '0',
      PEBBLE_WFE_NONCEREJECT: String(options.nonceReject ?? 0),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.add(child);
  child.once('close', () => running.delete(child));
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      log += text;
    });
  }
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const closed = once(child, 'close');
    child.kill('SIGTERM');
    await closed;
  };
  const ca = certificatePem(root.der);
  await untilAnswering(child, `https://localhost:${port}/dir`, ca, () => log);
  return {
    port,
    directoryUrl: `https://localhost:${port}/dir`,
    caFile,
    issuingRoot: () => get(`https://localhost:${managementPort}/roots/0`, ca),
    requests: (path) => log.split(`POST /${path}`).length - 1,
    stop,
  };
}

/** None outlives the tests, however these end. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

async function untilAnswering(
  child: ChildProcess,
  url: string,
  ca: string,
  log: () => string,
): Promise<void> {
  const deadline = performance.now() + readyWithinMs;
  for (;;) {
    try {
      await get(url, ca);
      return;
    } catch (error) {
      if (child.exitCode !== null || performance.now() > deadline) {
        throw new Error(`Pebble did not come up: ${log()}`, { cause: error });
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

function get(url: string, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const lookup = (_name: string, _options: object, found: Found): void =>
      found(null, [{ address: '127.0.0.1', family: 4 }]);
    const asked = request(url, { ca, lookup, agent: false }, (answer) => {
      let body = '';
      answer.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      answer.on('end', () => resolve(body));
    });
    asked.on('error', reject);
    asked.end();
  });
}

type Found = (error: null, addresses: { address: string; family: number }[]) => void;

/** Every name leads to one address. As much of RFC 1035 as that takes, over TCP, as Pebble asks. */
export class NameServer {
  /** Nothing listens on the ports of others of these. */
  leadsTo = '127.0.0.1';
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket) => {
      let received = Buffer.alloc(0);
      socket.on('error', () => undefined);
      socket.on('data', (bytes: Buffer) => {
        received = Buffer.concat([received, bytes]);
        // RFC 1035 §4.2.2: a message comes after its length.
        while (received.length > 2 && received.length >= 2 + received.readUInt16BE(0)) {
          const length = received.readUInt16BE(0);
          const answer = this.#answer(received.subarray(2, 2 + length));
          received = received.subarray(2 + length);
          const prefix = Buffer.alloc(2);
          prefix.writeUInt16BE(answer.length);
          socket.write(Buffer.concat([prefix, answer]));
        }
      });
    });
  }

  static async start(): Promise<NameServer> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new NameServer(server);
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.close();
  }

  #answer(query: Buffer): Buffer {
    let end = 12;
    while (end < query.length && query[end] !== 0) end += (query[end] as number) + 1;
    const question = query.subarray(12, end + 5);
    const isA = query.readUInt16BE(end + 1) === 1;
    const header = Buffer.alloc(12);
    query.copy(header, 0, 0, 2);
    // A response, recursion desired and available, no error; one question.
    header.writeUInt16BE(0x8180, 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(isA ? 1 : 0, 6);
    if (!isA) return Buffer.concat([header, question]);
    // The name of the question, type A, class IN, no caching, four bytes.
    const record = Buffer.from('c00c00010001000000000004', 'hex');
    const address = Buffer.from(this.leadsTo.split('.').map(Number));
    return Buffer.concat([header, question, record, address]);
  }
}

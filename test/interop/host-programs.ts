// Programs on the hosts of test clusters: a backend of Services, and a client that asks ClusterIPs. They show
// that TCP really passes. Each ends with its standard input, and so with the process of the test.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { SeparateHost } from '../e2e/separate-host.ts';

/** Of a backend. */
export const backendPort = 8080;

const backendSource = (text: string): string => `
require('node:net')
  .createServer((socket) => socket.on('error', () => undefined).end(${JSON.stringify(text)}))
  .listen({ port: ${backendPort}, host: '::', ipv6Only: false }, () => console.log('ready'));
process.stdin.resume().on('end', () => process.exit());
`;

/**
 * Reads an address and a port from each line, and prints the answer. It tries again until there is one: a packet
 * to a ClusterIP that kube-proxy does not know yet is lost.
 */
const clientSource = `
const { connect } = require('node:net');
const attempt = (host, port) => {
  let text = '';
  const again = () => setTimeout(attempt, 5, host, port);
  const socket = connect({ host, port, timeout: 100 });
  socket.on('data', (part) => { text += part; });
  socket.on('timeout', () => socket.destroy(new Error('no answer')));
  socket.on('error', again);
  socket.on('end', () => (text === '' ? again() : console.log(text)));
};
require('node:readline').createInterface({ input: process.stdin })
  .on('line', (line) => attempt(...line.split(' ')))
  .on('close', () => process.exit());
console.log('ready');
`;

class HostProgram {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(host: SeparateHost, source: string) {
    const [nsenter = '', ...words] = host.within;
    const stdio = ['pipe', 'pipe', 'inherit'] as const;
    const child = spawn(nsenter, [...words, process.execPath, '-e', source], {
      stdio: [...stdio],
    });
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  async line(): Promise<string> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error('a program on a host of a cluster ended');
    return value;
  }

  write(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'close');
    this.#child.stdin?.end();
    await ended;
  }
}

/** Answers each connection to any address of its host with a text. */
export class HostBackend {
  readonly #program: HostProgram;

  private constructor(program: HostProgram) {
    this.#program = program;
  }

  static async start(host: SeparateHost, text: string): Promise<HostBackend> {
    const program = new HostProgram(host, backendSource(text));
    await program.line();
    return new HostBackend(program);
  }

  stop(): Promise<void> {
    return this.#program.stop();
  }
}

/** One question at a time. */
export class HostClient {
  readonly #program: HostProgram;

  private constructor(program: HostProgram) {
    this.#program = program;
  }

  static async start(host: SeparateHost): Promise<HostClient> {
    const program = new HostProgram(host, clientSource);
    await program.line();
    return new HostClient(program);
  }

  /** What answers at the address. Waits for an answer for as long as it takes. */
  ask(address: string, port: number): Promise<string> {
    this.#program.write(`${address} ${port}`);
    return this.#program.line();
  }

  stop(): Promise<void> {
    return this.#program.stop();
  }
}

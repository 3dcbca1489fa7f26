// Calls between the workloads of `make demo`, by the example client and by go-spiffe.

import { join } from 'node:path';
import { callAs } from '../../examples/two-sites/workload.ts';
import { SpiffeId } from '../../src/api/values/spiffe-id.ts';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { parseSpiffeBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import { ensureTool } from '../tools/build.ts';
import { execute } from './daemon.ts';
import { expect, succeeds } from './narration.ts';
import { type DemoSite, programs } from './three-sites.ts';

/** The workload of one site calls that of another. */
export interface Leg {
  readonly from: DemoSite;
  readonly to: DemoSite;
  readonly url: string;
}

/** The answer, or status 0 and why there is none. */
export interface Call {
  readonly status: number;
  readonly text: string;
}

type Client = (leg: Leg) => Promise<Call>;

export class Clients {
  readonly #clients = new Map<string, Client>([['hansa', callHansa]]);

  /** With go-spiffe, where it is here or can be built. */
  static async find(): Promise<Clients> {
    const clients = new Clients();
    const path = await findGoSpiffe();
    if (path !== undefined) clients.#clients.set('go-spiffe', (leg) => callGoSpiffe(path, leg));
    return clients;
  }

  get names(): string {
    return [...this.#clients.keys()].join(' and ');
  }

  /** With the client that is always there. */
  async succeeds(leg: Leg): Promise<boolean> {
    return (await callHansa(leg)).status === 200;
  }

  /** All clients on all legs, and what is expected of each. */
  async end(legs: readonly Leg[], isSo: (call: Call, leg: Leg) => boolean): Promise<void> {
    const calls = legs.flatMap((leg) =>
      [...this.#clients].map(async ([name, client]) => {
        const call = await client(leg);
        const who = `${name}, as ${leg.from.workloadId} to ${leg.to.workloadId},`;
        expect(isSo(call, leg), `${who} was answered with ${call.status}: ${call.text}`);
      }),
    );
    await Promise.all(calls);
  }
}

async function callHansa({ from, to, url }: Leg): Promise<Call> {
  const args = [join(programs, 'web.ts'), url, to.workloadId];
  const ran = await execute(process.execPath, args, { env: from.env });
  const [, status = '0', text = ''] = /^(\d{3}) (.*)/.exec(ran.stdout) ?? [];
  return { status: Number(status), text: `${text}${ran.stderr}`.trim() };
}

async function callGoSpiffe(path: string, { from, to, url }: Leg): Promise<Call> {
  const ran = await execute(path, ['client', url, to.workloadId], { env: from.env });
  if (ran.code !== 0) return { status: 0, text: ran.stderr.trim() };
  const { status, body } = JSON.parse(ran.stdout) as { status: number; body: string };
  return { status, text: body.trim() };
}

async function findGoSpiffe(): Promise<string | undefined> {
  let isBuilding = false;
  const tool = await ensureTool('go-spiffe', (line) => {
    if (!isBuilding) {
      process.stdout.write(
        'setup   building the go-spiffe client, which makes the same calls as ours: about a minute, only the first time\n',
      );
    }
    isBuilding = true;
    process.stdout.write(`${line}\n`);
  });
  if (tool.path === undefined) process.stdout.write(`go-spiffe is left out: ${tool.reason}\n`);
  return tool.path;
}

/** As another workload, with an SVID by hand, and with a bundle that its site holds but would not give it. */
export async function callAsBatch({ from, to, url }: Leg): Promise<Call> {
  const mint = ['svid', 'mint', `spiffe://${from.trustDomain}/batch`, '-o', 'json'];
  const minted = JSON.parse(await succeeds(from.run(...mint))) as {
    readonly certificate: string;
    readonly privateKey: string;
  };
  const trustDomain = TrustDomain.parse(to.trustDomain);
  const show = ['trust', 'bundle', 'show', to.trustDomain];
  const { bundle } = parseSpiffeBundle(await succeeds(from.run(...show)), trustDomain);
  const { status, body } = await callAs(
    {
      credential: { certificateChain: minted.certificate, privateKey: minted.privateKey },
      bundles: new Map([[trustDomain.name, bundle]]),
    },
    new URL(url),
    SpiffeId.parse(to.workloadId),
  );
  return { status, text: body.trim() };
}

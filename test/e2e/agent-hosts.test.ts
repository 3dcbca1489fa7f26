// Agents on separate hosts: each has its own network, mount, PID and user namespaces, and a cable to the
// site that the tests can unplug. Workloads are go-spiffe, in the namespaces of their host.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { missingTools, requireTool } from '../interop/tool.ts';
import { LineReader } from '../interop/workload-site.ts';
import { type AgentProcess, startAgent } from './agent-process.ts';
import { resources } from './api-client.ts';
import { applyTo, asAdmin, joiningAt } from './agent-site.ts';
import { temporaryFolder } from './daemon.ts';
import { freePort } from './free-ports.ts';
import { PeeringSite } from './peering-pair.ts';
import { childOf, SeparateHost, whyNoHosts } from './separate-host.ts';
import { until } from './until.ts';

const skip = whyNoHosts() || (await missingTools('go-spiffe'));

interface Context {
  readonly svids?: readonly { readonly id: string }[];
  readonly bundles?: Readonly<Record<string, number>>;
  readonly error?: string;
}

/** A host with an agent. */
interface Machine {
  readonly host: SeparateHost;
  readonly agent: AgentProcess;
}

suite('agents on separate hosts', { skip }, () => {
  const watches = new Set<ChildProcess>();
  const hosts: SeparateHost[] = [];
  const machines: Machine[] = [];
  let lubeck: PeeringSite;
  let bruges: PeeringSite;
  let program: string;

  const idOf = (path: string): string => `spiffe://lubeck.example/${path}`;
  const entry = (name: string, agents: object): Promise<void> =>
    applyTo(lubeck, 'WorkloadEntry', name, {
      spiffeID: idOf(name),
      selectors: [`unix:path:${program}`],
      federatesWith: ['*'],
      agents,
    });
  const socketOf = ({ host }: Machine): string => `unix://${host.folder}/workload.sock`;
  const fetch = ({ host, ...rest }: Machine) =>
    host.run(program, ['fetch'], { SPIFFE_ENDPOINT_SOCKET: socketOf({ host, ...rest }) });
  const idsOf = async (machine: Machine): Promise<readonly string[]> => {
    const { code, stdout } = await fetch(machine);
    const { svids = [] } = code === 0 ? (JSON.parse(stdout) as Context) : {};
    return svids.map(({ id }) => id).toSorted();
  };
  const untilIds = (machine: Machine, ...paths: readonly string[]): Promise<void> => {
    let last: readonly string[] = [];
    return until(
      async () => {
        last = await idsOf(machine);
        return last.join() === paths.map(idOf).toSorted().join();
      },
      () => `${machine.host.name} has ${last.join()}, not ${paths.join()}: ${machine.agent.log()}`,
    );
  };
  const watch = (machine: Machine): LineReader => {
    const [command = '', ...words] = machine.host.within;
    const child = spawn(command, [...words, program, 'watch'], {
      env: { ...process.env, SPIFFE_ENDPOINT_SOCKET: socketOf(machine) },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    watches.add(child);
    return new LineReader(child);
  };
  const trusts = async (from: LineReader, ...names: readonly string[]): Promise<void> => {
    for (;;) {
      const { bundles } = await from.next<Context>();
      if (bundles !== undefined && Object.keys(bundles).toSorted().join() === names.join()) return;
    }
  };
  /** The agent is the child of nsenter. */
  const kill = async ({ agent }: Machine, signal: NodeJS.Signals): Promise<number | string> => {
    process.kill(childOf(agent.pid), signal);
    return agent.ended;
  };

  before(async () => {
    program = await requireTool('go-spiffe');
    for (const name of ['crane-1', 'crane-2']) hosts.push(await SeparateHost.start(name));
    const [first] = hosts as [SeparateHost];
    const folder = temporaryFolder();
    // An address of this machine that all hosts reach through their own cable.
    const federation = ['--federation', `${first.gateway}:${await freePort()}`];
    lubeck = new PeeringSite(folder, 'lubeck', federation);
    bruges = new PeeringSite(folder, 'bruges');
    await Promise.all([lubeck.start(), bruges.start()]);
    for (const host of hosts) {
      const { name, within } = host;
      const joining = await joiningAt(lubeck, name, { place: name });
      const secretFile = join(folder, `${name}.secret`);
      const agent = await startAgent(host.folder, joining, { within, secretFile });
      machines.push({ host, agent });
    }
    await entry('first', { names: ['crane-1'] });
    await entry('second', { selector: { matchLabels: { place: 'crane-2' } } });
  });
  after(async () => {
    for (const child of watches) child.kill('SIGKILL');
    for (const host of hosts) await host.stop();
    await Promise.all([lubeck?.stop(), bruges?.stop()]);
  });

  const machine = (index: number): Machine => machines[index] as Machine;

  test('each serves the entries of its own host', async () => {
    await untilIds(machine(0), 'first');
    await untilIds(machine(1), 'second');
  });

  test('the site lists each with the name of its host and its state', async () => {
    const shown = JSON.parse(await lubeck.must(['get', 'agents', '-o', 'json'])) as {
      readonly items: readonly { readonly metadata: { readonly name: string } }[];
    };
    const names = shown.items.map(({ metadata }) => metadata.name).toSorted();
    assert.deepEqual(names, ['crane-1', 'crane-2', 'site']);
  });

  test('a suspended peer is told to the workloads of both at once', async () => {
    const invitation = await lubeck.invite(['--for', 'bruges.example']);
    assert.equal((await bruges.accept(invitation)).code, 0);
    const seen = machines.map(watch);
    // The identity is served by both, so that the grant concerns both.
    await applyTo(lubeck, 'ServiceOffer', 'first', { spiffeID: idOf('first') });
    await applyTo(lubeck, 'ServiceOffer', 'second', { spiffeID: idOf('second') });
    await lubeck.must([
      'grant',
      'create',
      'bruges',
      '--peer=bruges.example',
      '--offer=first',
      '--offer=second',
      '--identity=spiffe://bruges.example/web',
      '--any-network',
      '--any-address',
    ]);
    await Promise.all(seen.map((one) => trusts(one, 'bruges.example', 'lubeck.example')));
    await lubeck.must(['peer', 'suspend', 'bruges.example']);
    await Promise.all(seen.map((one) => trusts(one, 'lubeck.example')));
    await lubeck.must(['peer', 'resume', 'bruges.example']);
    await Promise.all(seen.map((one) => trusts(one, 'bruges.example', 'lubeck.example')));
  });

  test('a host without its cable serves on, and catches up afterwards', async () => {
    machine(0).host.setCable('down');
    try {
      await entry('later', { names: ['crane-1', 'crane-2'] });
      await untilIds(machine(1), 'later', 'second');
      assert.deepEqual(await idsOf(machine(0)), [idOf('first')]);
    } finally {
      machine(0).host.setCable('up');
    }
    await untilIds(machine(0), 'first', 'later');
  });

  test('a killed agent serves again after it was started with its data folder alone', async () => {
    assert.equal(await kill(machine(0), 'SIGKILL'), 'SIGKILL');
    const { host } = machine(0);
    machines[0] = {
      host,
      agent: await startAgent(host.folder, undefined, { within: host.within }),
    };
    await untilIds(machine(0), 'first', 'later');
  });

  test('changed labels of an agent move its entries', async () => {
    const label = (place: string) =>
      asAdmin(lubeck, async (admin) => {
        const { status, text } = await admin.request('PATCH', `${resources}/agents/crane-2`, {
          headers: { 'content-type': 'application/merge-patch+json' },
          body: { metadata: { labels: { place } } },
        });
        assert.equal(status, 200, text);
      });
    await label('elsewhere');
    await untilIds(machine(1), 'later');
    await label('crane-2');
    await untilIds(machine(1), 'later', 'second');
  });

  test('a forgotten agent ends, and its host gets nothing more', async () => {
    await lubeck.must(['agent', 'forget', 'crane-1']);
    const code = await machine(0).agent.ended;
    assert.ok(code === 6 || code === 7, `it ended with ${code}: ${machine(0).agent.log()}`);
    assert.deepEqual(await idsOf(machine(0)), []);
    await untilIds(machine(1), 'later', 'second');
  });
});

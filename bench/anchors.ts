// The programs that several parts compare with, started once for all of them: `make bench` starts them and tells the
// parts in variables where they are. A part that runs by itself starts its own. Parts whose objects in an anchor
// would disturb the figures of others have anchors of their own.

import { type SpireServer, spireCommands, startSpire } from '../test/interop/spire.ts';
import { missingTools } from '../test/interop/tool.ts';
import { WireClient } from '../test/interop/wire.ts';
import { type KubeRival, startKube } from './rival.ts';

export type Anchor = 'kube' | 'spire';

export type SpireAnchor = Omit<SpireServer, 'presented'>;

const variables = { kube: 'BENCH_KUBE', spire: 'BENCH_SPIRE' } as const;
const nothing = (): Promise<void> => Promise.resolve();

/** With our CRDs, and as other parts left it. */
export async function kubeAnchor(): Promise<KubeRival> {
  const shared = process.env[variables.kube];
  if (shared === undefined) return startKube();
  const told = JSON.parse(shared) as Omit<KubeRival, 'client' | 'stop'>;
  const client = new WireClient(told);
  return { ...told, client, stop: async () => client.close() };
}

/** Undefined where the programs of SPIRE are missing. */
export async function spireAnchor(): Promise<SpireAnchor | undefined> {
  const missing = await missingTools('spire-server', 'spire-agent');
  if (missing !== false) {
    process.stderr.write(`bench   SPIRE is left out: ${missing}\n`);
    return undefined;
  }
  const shared = process.env[variables.spire];
  if (shared === undefined) return startSpire('hamburg.example');
  const told = JSON.parse(shared) as Omit<SpireAnchor, 'run' | 'bundle' | 'stop'>;
  return { ...told, ...(await spireCommands(told.socket)), stop: nothing };
}

type Started = Pick<SpireServer | KubeRival, 'stop'>;

/** Those that the parts of one run share. */
export class SharedAnchors {
  readonly #started = new Map<Anchor, Started>();

  /** Variables that tell the part where its anchors are; starts those that are missing. */
  async environmentOf({
    anchors = [],
  }: {
    readonly anchors?: readonly Anchor[];
  }): Promise<Record<string, string>> {
    const variablesOfPart: Record<string, string> = {};
    for (const anchor of anchors) {
      const started =
        this.#started.get(anchor) ?? (anchor === 'kube' ? await startKube() : await spireAnchor());
      if (started === undefined) continue;
      this.#started.set(anchor, started);
      // Functions and the client are left out.
      const { client: _, ...told } = started as KubeRival;
      variablesOfPart[variables[anchor]] = JSON.stringify(told);
    }
    return variablesOfPart;
  }

  /** Stops those that none of these parts needs. */
  async keepFor(parts: Iterable<{ readonly anchors?: readonly Anchor[] }>): Promise<void> {
    const needed = new Set([...parts].flatMap(({ anchors = [] }) => anchors));
    for (const [anchor, started] of this.#started) {
      if (needed.has(anchor)) continue;
      this.#started.delete(anchor);
      await started.stop();
    }
  }

  async stop(): Promise<void> {
    await this.keepFor([]);
  }
}

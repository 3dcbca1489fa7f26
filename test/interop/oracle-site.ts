// The resource API of a site with any kinds, in this process, for a caller who may do everything.
//
// In a real site only controllers write `status`, and the kinds are fixed. The comparison with the
// oracle needs both to be open. So this file uses the dispatcher, handler and writer of a site on
// an in-memory store, without its listeners and authentication, which have their own tests.

import { Answers } from '../../src/server/http/answers.ts';
import type { Kind } from '../../src/api/kind.ts';
import { createRegistry } from '../../src/api/registry.ts';
import { unauthorized } from '../../src/core/access/denial.ts';
import type { Caller } from '../../src/core/access/identity.ts';
import { systemClock, systemRandom } from '../../src/core/clock/system.ts';
import { createLog } from '../../src/core/log/json-log.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { openStore } from '../../src/core/store/open.ts';
import { loadConfig } from '../../src/server/config/config.ts';
import { RequestDispatcher } from '../../src/server/http/request-dispatcher.ts';
import { Limits } from '../../src/server/http/limits.ts';
import { listenPlain } from '../../src/server/listeners/listeners.ts';
import { ResourceHandler } from '../../src/server/resources/handler.ts';
import { Lister } from '../../src/server/resources/lister.ts';
import { Watches } from '../../src/server/resources/watches.ts';
import { ResourceWriter } from '../../src/server/resources/writer.ts';
import { WireClient } from './wire.ts';

const everyone: Caller = { user: 'oracle-admin', groups: [], via: 'controller' };

export interface OracleSite {
  readonly client: WireClient;
  /** Forgets the past, as a site does in time: who watches from there is told to list again. */
  compact(): Promise<void>;
  stop(): Promise<void>;
}

export async function startOracleSite(kinds: readonly Kind[]): Promise<OracleSite> {
  const clock = systemClock;
  const random = systemRandom;
  const metrics = new MetricsRegistry();
  const log = createLog({ clock, sink: process.stderr, level: 'warn', format: 'text' });
  const { config } = loadConfig({
    planes: [],
    flags: { dataDir: '/nonexistent' },
    env: {},
    cwd: '/',
  });
  const store = await openStore({ driver: 'memory' }, { clock, log, metrics });
  // Revision 0 means "any" in a request. No real store is ever there: it holds its keys and roles.
  await store.commit({
    put: [{ collection: 'oracle.start', name: 'start', encode: () => Buffer.from('{}') }],
  });
  const answers = new Answers(clock, { withinMs: 60_000, maxBytes: 64 * 1024 ** 2 });
  const watches = new Watches({
    store,
    clock,
    random,
    answers,
  });
  const allowed = () => ({ allowed: true, reason: '' });
  const everyoneMay = { authorize: allowed, authorizePath: allowed };
  const front = new RequestDispatcher({
    answers: answers,
    authorizer: everyoneMay,
    clock,
    random,
    log,
    metrics,
    resources: new ResourceHandler({
      registry: createRegistry(kinds),
      store,
      clock,
      random,
      authorizer: everyoneMay,
      writer: new ResourceWriter({
        store,
        clock,
        random,
        admit: () => [],
        auditRow: () => undefined,
      }),
      lister: new Lister({ store, clock, turns: answers.turns }),
      watches,
      maxRequestBytes: config.limits.maxRequestBytes,
    }),
    routes: [],
    denied: () => {},
  });
  const listener = await listenPlain(
    { host: '127.0.0.1', port: 0 },
    config.limits,
    front.listener(
      { find: () => everyone, refusal: () => unauthorized('nobody') },
      new Limits({ ...config.limits, requestsPerSecond: 0 }, clock),
    ),
    clock,
  );
  const url = `http://127.0.0.1:${listener.address.port}`;
  const client = new WireClient({ url, ca: '', token: 'none' });
  return {
    client,
    compact: () => store.compact(store.revision),
    stop: async () => {
      client.close();
      watches.drain();
      await listener.close(0);
      await store.close();
    },
  };
}

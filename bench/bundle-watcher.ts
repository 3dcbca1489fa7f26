// A workload for bench/spire-operator.ts: prints the trust domains whose bundles it holds, one JSON array per line,
// whenever the agent sends a new state. It runs in the namespaces of the agent, which can attest it only there.
//
//   node bench/bundle-watcher.ts SOCKET

import { setTimeout as sleep } from 'node:timers/promises';
import { watchSvids } from '../src/trust/client/workload-client.ts';

const [socket = ''] = process.argv.slice(2);
/** Between attempts while the agent does not know the entry yet. */
const retryMs = 200;

process.stdin.on('end', () => process.exit()).resume();
for (;;) {
  try {
    for await (const { federated } of watchSvids(socket, new AbortController().signal)) {
      const held = [...federated.keys()].map((id) => id.replace('spiffe://', ''));
      process.stdout.write(`${JSON.stringify(held)}\n`);
    }
  } catch {
    await sleep(retryMs);
  }
}

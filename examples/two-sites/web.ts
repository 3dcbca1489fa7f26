// The workload of bruges.example: calls a URL, as whom its site says that it is, and only where the
// expected identity answers. Ends with 1 where it is refused, at either side.
//
//   node examples/two-sites/web.ts https://127.0.0.1:9443/ spiffe://lubeck.example/db
//
// With SPIFFE_ENDPOINT_SOCKET.

import { SpiffeId } from '../../src/api/values/spiffe-id.ts';
import { callAs, identities, workloadSocket } from './workload.ts';

const url = new URL(process.argv[2] ?? '');
const expected = SpiffeId.parse(process.argv[3] ?? '');
const stop = new AbortController();

for await (const identity of identities(workloadSocket(), stop.signal)) {
  try {
    const { status, body } = await callAs(identity, url, expected);
    process.stdout.write(`${status} ${body.trim()}\n`);
    if (status !== 200) process.exitCode = 1;
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
  break;
}

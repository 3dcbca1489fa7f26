// The workload of bruges.example: calls a URL with the SVID from its site, if the server has the expected
// SPIFFE ID. Exits with code 1 if either side rejects the other.
//
//   node examples/two-sites/web.ts https://127.0.0.1:9443/ spiffe://lubeck.example/db
//
// Needs SPIFFE_ENDPOINT_SOCKET.

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

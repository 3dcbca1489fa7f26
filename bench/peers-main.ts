// The entry point of a site for `peers.ts`: like src/main.ts, and after SIGUSR2 it collects garbage and writes how
// many bytes are still in use to standard error. The memory of a process says too little about a few peers: it
// also has what was not collected yet.

import packageJson from '../package.json' with { type: 'json' };
import { authPlane } from '../src/auth/plane.ts';
import { processIo } from '../src/cli/process-io.ts';
import { runCli } from '../src/cli/program.ts';
import { kubernetesPlane } from '../src/kubernetes/plane.ts';
import { peeringPlane } from '../src/peering/plane.ts';
import { trustPlane } from '../src/trust/plane.ts';

let answers = 0;
process.on('SIGUSR2', () => {
  // Finalizers that the first collection ran free more.
  for (let i = 0; i < 2; i++) globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  process.stderr.write(`bench-live-bytes ${++answers} ${heapUsed + external}\n`);
});

process.exitCode = await runCli(process.argv.slice(2), processIo(), {
  version: packageJson.version,
  planes: [trustPlane, peeringPlane, authPlane, kubernetesPlane],
});

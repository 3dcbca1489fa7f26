// The entry point of a site for `idle.ts`: like src/main.ts, with the kubernetes plane or without it
// (WITHOUT_KUBERNETES=1).

import packageJson from '../package.json' with { type: 'json' };
import { authPlane } from '../src/auth/plane.ts';
import { processIo } from '../src/cli/process-io.ts';
import { runCli } from '../src/cli/program.ts';
import { peeringPlane } from '../src/peering/plane.ts';
import { trustPlane } from '../src/trust/plane.ts';

const others = [trustPlane, peeringPlane, authPlane];
const planes =
  process.env['WITHOUT_KUBERNETES'] === '1'
    ? others
    : // Its file is read only by the site that has the plane.
      [...others, (await import('../src/kubernetes/plane.ts')).kubernetesPlane];

process.exitCode = await runCli(process.argv.slice(2), processIo(), {
  version: packageJson.version,
  planes,
});

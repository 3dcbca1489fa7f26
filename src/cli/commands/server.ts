// hansa server: runs a site in the foreground.

import { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { addConfigOptions, loadServerConfig } from './server-config.ts';

export function serverCommand(cli: Cli): Command {
  return addConfigOptions(cli, new Command('server'))
    .description('run a site in the foreground')
    .addHelpText(
      'after',
      `
The first start in a data folder makes everything that the site needs. The flags of a start are kept
in DATA_DIR/config.yaml, so later starts need only --data-dir; a flag given later replaces what is
kept. Not kept: --trust-domain (the store has it), --log-level, --log-format and
--ca-clock-trusted-until. SIGTERM and SIGINT stop the site after the requests in flight; log lines go
to standard error.

Examples:
  hansa server --data-dir ./lubeck --trust-domain lubeck.example
  hansa server --config site.yaml
  HANSA_LOG_LEVEL=debug hansa server --data-dir ./lubeck --api 127.0.0.1:0`,
    )
    .action(async (_options: unknown, command: Command) => {
      const { config, settings } = loadServerConfig(cli, command);
      // Loaded here and not above, so that other commands start without the daemon's code.
      const { runServer } = await import('../../server/run.ts');
      // A site does not end because whoever read its output has gone.
      for (const stream of [cli.io.stdout, cli.io.stderr]) {
        stream.removeAllListeners('error').on('error', () => undefined);
      }
      await runServer({
        config,
        settings,
        planes: cli.planes,
        version: cli.version,
        cwd: cli.io.cwd,
        clock: cli.io.clock,
        random: cli.io.random,
        logTo: cli.io.stderr,
        announce: (text) => cli.print(text),
        interruption: cli.io.interruption(),
      });
    });
}

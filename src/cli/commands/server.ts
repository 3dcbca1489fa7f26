// `hansa server`: runs a site in the foreground.

import { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { addConfigOptions, loadServerConfig } from './server-config.ts';

export function serverCommand(cli: Cli): Command {
  return addConfigOptions(cli, new Command('server'))
    .description('run a site in the foreground')
    .addHelpText(
      'after',
      `
The first start in a data folder creates the store, the keys and the authorities of the site. The site
keeps the flags of a start in DATA_DIR/config.yaml, so later starts need only --data-dir. A later flag
replaces the stored value. The site does not keep --log-level, --log-format and
--ca-clock-trusted-until in this file; the trust domain is in the store. SIGTERM and SIGINT stop the
site after it has answered open requests. Log lines go to standard error.

Examples:
  hansa server --data-dir ./lubeck --trust-domain lubeck.example
  hansa server --config site.yaml
  HANSA_LOG_LEVEL=debug hansa server --data-dir ./lubeck --api 127.0.0.1:0`,
    )
    .action(async (_options: unknown, command: Command) => {
      const { config, settings } = loadServerConfig(cli, command);
      // Imported here, so that other commands do not load the code of the daemon.
      const { runServer } = await import('../../server/run.ts');
      // A site keeps running when the reader of its output has closed the pipe.
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

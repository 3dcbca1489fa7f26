// `hansa docs generate`: writes docs/reference. A hidden command, for developers of Hansa.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { Command } from 'commander';
import { loadAgentParts } from '../../core/agent/agent-part.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { loadConfig } from '../../server/config/config.ts';
import type { Cli } from '../cli.ts';
import type { ReferenceSources } from './reference-pages.ts';

export function docsCommand(cli: Cli): Command {
  const generate = new Command('generate')
    .description('write the reference pages')
    .argument('<folder>', 'the folder; its contents are replaced')
    .addHelpText('after', '\nExamples:\n  hansa docs generate docs/reference')
    .action(async (folder: string, _options: unknown, command: Command) => {
      const program = command.parent?.parent;
      if (program === null || program === undefined) return;
      const site = await lookAtSite(cli);
      // Imported here, so that other commands do not load it.
      const { referencePages } = await import('./reference-pages.ts');
      const pages = referencePages({
        program,
        registry: cli.registry,
        planes: cli.planes,
        ...site,
      });
      const root = resolve(cli.io.cwd, folder);
      rmSync(root, { recursive: true, force: true });
      for (const [path, text] of pages) {
        mkdirSync(dirname(join(root, path)), { recursive: true });
        writeFileSync(join(root, path), text);
      }
      cli.note(`${pages.size} pages written to ${root}`);
    });
  return new Command('docs').description('documentation of Hansa itself').addCommand(generate);
}

/** Starts a site, because its parts declare metrics and routes when they start. */
async function lookAtSite(
  cli: Cli,
): Promise<Pick<ReferenceSources, 'metrics' | 'agentMetrics' | 'routes'>> {
  const ofAgents = new MetricsRegistry();
  for (const part of await loadAgentParts(cli.agentParts)) await part.declareMetrics?.(ofAgents);
  const { startSite } = await import('../../server/site.ts');
  const dataDir = mkdtempSync(join(tmpdir(), 'hansa-docs-'));
  const loopback = '127.0.0.1:0';
  const flags = {
    dataDir,
    trustDomain: 'docs.example',
    api: loopback,
    federation: loopback,
    'jwt.issuer': 'https://docs.example',
    metrics: loopback,
  };
  const { config } = loadConfig({ planes: cli.planes, flags, env: {}, cwd: cli.io.cwd });
  const { clock, random } = cli.io;
  const metrics = new MetricsRegistry();
  const log = createLog({ clock, sink: { write: () => true }, level: 'error', format: 'json' });
  try {
    const site = await startSite({
      config,
      planes: cli.planes,
      version: cli.version,
      clock,
      random,
      log,
      metrics,
    });
    const { routes } = site;
    const text = metrics.expose();
    await site.stop();
    return { metrics: text, agentMetrics: ofAgents.expose(), routes };
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}

import { reconcileScenario } from './reconcile-scenario.ts';
import { simulationTest } from './seeds.ts';

simulationTest(reconcileScenario, 70);

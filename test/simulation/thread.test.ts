import { simulationTest } from './seeds.ts';
import { threadScenario } from './thread-scenario.ts';

simulationTest(threadScenario, 200);

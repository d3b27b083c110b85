"""A folder of Hugging Face, trained further and given back: without torch and transformers.

    renga data text TEXT llama.h5 -sequence 128 -vocabulary_file Llama-3.2-1B/tokenizer.json
    mpiexec -n 4 python3 pretrained.py
"""
import renga
model = renga.from_pretrained("Llama-3.2-1B", sequence=128)
with renga.Trainer(model, "llama.h5", steps=200, batch_size=8, lr=1e-5, eval_every=50,
                   checkpoint_dir="checkpoints", checkpoint_every="30min", resume=True) as trainer:
    trainer.train()
    trainer.save_pretrained("Llama-3.2-1B-trained")
